package posting

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// RaiseFence raises the account's fence to a token that was drawn for it, and keeps
// who did so and why (K-3.2): every lower one is fenced out from then on. It tells
// where the fence stood. False means that nothing had to be raised, for it stood as
// high already, or the floor refuses more than that (K-4.12); so a rerun finishes
// what is pending and does nothing twice.
//
// It returns ErrNotFound, and ErrInvalid for a clearing account too, which has no
// fence.
func (s *Store) RaiseFence(ctx context.Context, accountID string, to paystore.Token, operator, reason string) (from paystore.Token, raised bool, err error) {
	id, err := paystore.ParseID("account", accountID)
	if err = errors.Join(err, paystore.ValidToken(to), paystore.ValidOperator(operator), paystore.ValidReason(reason)); err != nil {
		return 0, false, err
	}
	err = s.db.Transaction(ctx, "raise the fence of account "+id, id, func(tx pgx.Tx) error {
		raised = false
		if err := oneRow(paystore.ErrNotFound, tx.QueryRow(ctx, lockAccountQuery, id).Scan(&from)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, raiseFenceQuery, id, to)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		raised = true
		_, err = tx.Exec(ctx, recordRaiseQuery, id, from, to, operator, reason)
		return err
	})
	if hasConstraint(err, "account_clearing_guard") {
		err = fmt.Errorf("%w: account %s is a clearing account, it has no fence; give a payer's", paystore.ErrInvalid, id)
	}
	if err != nil {
		return 0, false, err
	}
	return from, raised, nil
}
