package rail

import (
	"context"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Writable tells whether the login may write marks and attempts: better asked than
// found out halfway (K-4.6).
func (p *Proxy) Writable(ctx context.Context) (writable bool, err error) {
	err = p.db.Read(ctx, "look at the rights of the rail's login", rightsQuery, nil, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error { return rows.Scan(&writable) })
	})
	return writable, err
}

// RaiseMark raises the rail's mark of an account to a token that is nobody's grant,
// so that every lower one is refused at once (K-3.2). from is what stood before, 0
// for nothing; raised is false when as much stood already, in the mark or in the
// floor, so that a rerun finds the account fenced.
//
// It returns ErrNotFound when there is no such account, and ErrInvalid.
func (p *Proxy) RaiseMark(ctx context.Context, accountID string, to paystore.Token) (from paystore.Token, raised bool, err error) {
	if accountID, err = paystore.ParseID("account", accountID); err != nil {
		return 0, false, err
	}
	if err := paystore.ValidToken(to); err != nil {
		return 0, false, err
	}
	doing := fmt.Sprintf("raise the rail's mark of account %s to %s", accountID, to)
	err = p.db.Transaction(ctx, doing, accountID, func(tx pgx.Tx) error {
		var floor paystore.Token
		if from, _, err = barrier(ctx, tx, accountID); err != nil {
			return err
		}
		if raised, err = mark(ctx, tx, accountID, to); err != nil || raised {
			return err
		}
		// Another was first; the statement waited for it.
		from, floor, err = barrier(ctx, tx, accountID)
		from = max(from, floor)
		return err
	})
	if pgtx.HasCode(err, pgerrcode.ForeignKeyViolation) {
		err = fmt.Errorf("%s: account: %w", doing, paystore.ErrNotFound)
	}
	if err != nil {
		return 0, false, err
	}
	return from, raised, nil
}
