package syncguard

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Act is something of a table's own, such as a trigger, that changes what a statement
// on it does. SyncGuard makes none.
type Act struct {
	// Table is the table's name as SQL has it, and What the act.
	Table, What string
	// Fix is the statement that puts it out of action.
	Fix string
	// Breaks: under the login that looked it hides rows or rewrites statements, so
	// that what a statement says of a lock is not so.
	Breaks bool
	// Shape: it is a difference of the table's shape, too.
	Shape bool
}

func (a Act) String() string { return a.Table + ": " + a.What }

// Acts looks for what acts on the two tables, named as SQL has them; the worst comes
// first. It reads the catalogue alone, which every login may.
func Acts(ctx context.Context, q Querier, lock, fence string) ([]Act, error) {
	rows, err := q.Query(ctx, actsQuery, lock, fence)
	var acts []Act
	if err == nil {
		acts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Act])
	}
	if err != nil {
		return nil, fmt.Errorf("look at what acts on %s and %s: %w", lock, fence, err)
	}
	return acts, nil
}

// CheckActs refuses, with *lockstore.UnsafeError, tables on which a statement of this
// login does not do what it says. A trigger may be the application's own guard, and what
// it keeps a change from doing is an error here: the doctor names it.
func CheckActs(ctx context.Context, q Querier, names Names) error {
	acts, err := Acts(ctx, q, names.Quoted(names.Lock), names.Quoted(names.Fence))
	if err != nil {
		return err
	}
	var saw, fixes []string
	for _, act := range acts {
		if act.Breaks {
			saw, fixes = append(saw, act.String()), append(fixes, act.Fix)
		}
	}
	if len(saw) == 0 {
		return nil
	}
	return &lockstore.UnsafeError{Clause: clause, Problem: strings.Join(saw, "; "), Fix: strings.Join(fixes, "; ")}
}

// checkActs is CheckActs on one connection of the store.
func (s *Store) checkActs(ctx context.Context) error {
	conn, err := s.acquireConn(ctx, "open SyncGuard's database")
	if err != nil {
		return err
	}
	defer conn.Release()
	return CheckActs(ctx, pgtx.OneTrip{Conn: conn.Conn()}, s.names)
}
