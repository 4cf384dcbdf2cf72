package paydb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// floors is how many rows fence_floor must have: one for each enforcement point.
const floors = 2

// Highest is the highest token that the service's role may read, and the column it
// stands in (K-7.6). query answers with one row: token, source, and how many floors
// there are. A floor that is missing is an error, for it is not 0 (K-7.2). One caller
// is answered after the other: the query reads whole tables, and lock-server asks when
// it starts.
func (l *Link) Highest(ctx context.Context, query string) (token paystore.Token, source string, err error) {
	const doing = "find the highest token of paydb"
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
		return 0, "", &paystore.UnreachableError{Doing: doing, Err: context.Cause(ctx)}
	}
	db, err := l.DB(ctx)
	if err != nil {
		return 0, "", err
	}
	found := 0
	err = db.Read(ctx, doing, query, nil, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error { return rows.Scan(&token, &source, &found) })
	})
	switch {
	case err != nil:
		return 0, "", err
	case found < floors:
		return 0, "", &paystore.UnsafeError{
			Clause: "K-4.12", Problem: "a floor of paydb is missing, so the highest token is not known", Fix: "dlockctl doctor prints the statement that puts it back",
		}
	}
	return token, source, nil
}
