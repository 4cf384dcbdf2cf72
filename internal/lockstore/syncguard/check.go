package syncguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// clause is what a refusal of the tables is about.
const clause = "K-10.2"

// migrateCommand makes SyncGuard's tables, and with --audit the audit's too.
const migrateCommand = "dlockctl migrate up --target syncguard"

// check refuses a standby, a server that is too old, and tables that are not those
// that SyncGuard makes, on one connection.
func (s *Store) check(ctx context.Context) error {
	const doing = "open SyncGuard's database"
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	q := pgtx.OneTrip{Conn: conn.Conn()}
	facts, err := instance.Read(ctx, q)
	if err != nil {
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	if err := facts.CheckVersion(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if facts.InRecovery {
		return fmt.Errorf("%s: %w", doing, lockstore.ErrNotPrimary)
	}
	lock := []string{"key", "lock_id", "expires_at_ms", "acquired_at_ms", "fence", "user_key"}
	if err := s.checkTable(ctx, q, s.names.Lock, lock); err != nil {
		return err
	}
	return s.checkTable(ctx, q, s.names.Fence, []string{"fence_key", "fence", "key_debug"})
}

// checkTable wants the table with these columns, the first of them unique.
func (s *Store) checkTable(ctx context.Context, q pgtx.OneTrip, table string, columns []string) error {
	var there, twin, unique bool
	var missing []string
	folded := strings.ToLower(table)
	err := q.QueryRow(ctx, checkTableQuery, s.names.Quoted(table), s.names.Quoted(folded), columns, columns[0]).Scan(&there, &twin, &missing, &unique)
	if err != nil {
		return fmt.Errorf("look at table %s: %w", table, err)
	}
	quoted := s.names.Quoted(table)
	switch {
	case !there && twin:
		return &lockstore.UnsafeError{
			Clause:  clause,
			Problem: fmt.Sprintf("there is no table %s, but there is %s: SyncGuard's setup folds a name to lower case, its operations do not", quoted, s.names.Quoted(folded)),
			Fix:     fmt.Sprintf("name it %s, here and in the application", folded),
		}
	case !there:
		return &lockstore.UnsafeError{Clause: clause, Problem: fmt.Sprintf("there is no table %s", quoted), Fix: migrateCommand}
	case len(missing) > 0:
		return &lockstore.UnsafeError{
			Clause: clause, Problem: fmt.Sprintf("table %s has no column %s: it is not as SyncGuard makes it", quoted, strings.Join(missing, ", ")),
			Fix: "name SyncGuard's tables, or add what is missing",
		}
	case !unique:
		return &lockstore.UnsafeError{
			Clause: clause, Problem: fmt.Sprintf("column %s of table %s is not unique: two could hold one key", columns[0], quoted),
			Fix: fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (%s)", quoted, columns[0]),
		}
	}
	return nil
}

// missingTable names the audit table and how to get one, when that is what is
// missing: it is made on request only.
func (s *Store) missingTable(doing string, err error) error {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	if refused == nil || !strings.Contains(refused.Message, s.names.Audit) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, &lockstore.UnsafeError{
		Clause: "K-3.1", Problem: fmt.Sprintf("there is no audit table %s to record it in", s.names.Quoted(s.names.Audit)), Fix: migrateCommand + " --audit",
	})
}
