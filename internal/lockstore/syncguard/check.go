package syncguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
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
	return CheckTables(ctx, q, s.names)
}

// Querier asks the database; a pgx connection and a transaction are each one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckTables wants both tables, with what every statement here rests on. It returns
// *lockstore.UnsafeError where they are not so; dlockctl doctor says more of them.
func CheckTables(ctx context.Context, q Querier, names Names) error {
	lock := []string{"key text", "lock_id text", "expires_at_ms bigint", "acquired_at_ms bigint", "fence text", "user_key text"}
	if err := checkTable(ctx, q, names, names.Lock, lock); err != nil {
		return err
	}
	return checkTable(ctx, q, names, names.Fence, []string{"fence_key text", "fence bigint", "key_debug text"})
}

// checkTable wants the table with these columns, the first of them unique at once.
func checkTable(ctx context.Context, q Querier, names Names, table string, columns []string) error {
	var there, twin, unique bool
	var missing []string
	var deferrable string
	key, _, _ := strings.Cut(columns[0], " ")
	quoted, folded := names.Quoted(table), strings.ToLower(table)
	err := q.QueryRow(ctx, checkTableQuery, quoted, names.Quoted(folded), columns, key).Scan(&there, &twin, &missing, &unique, &deferrable)
	if err != nil {
		return fmt.Errorf("look at table %s: %w", table, err)
	}
	var problem, fix string
	switch {
	case !there && twin:
		problem = fmt.Sprintf("there is no table %s, but there is %s: SyncGuard's setup folds a name to lower case, its operations do not", quoted, names.Quoted(folded))
		fix = fmt.Sprintf("name it %s, here and in the application", folded)
	case !there:
		problem, fix = "there is no table "+quoted, migrateCommand
	case len(missing) > 0:
		problem = fmt.Sprintf("table %s has no column %s: it is not as SyncGuard makes it", quoted, strings.Join(missing, ", "))
		fix = "name SyncGuard's tables, or add what is missing"
	case !unique && deferrable != "":
		problem = fmt.Sprintf("the key %s of table %s is DEFERRABLE: ON CONFLICT cannot use it, and so nobody acquires", deferrable, quoted)
		fix = fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD PRIMARY KEY (%s)", quoted, deferrable, key)
	case !unique:
		problem = fmt.Sprintf("column %s of table %s is not unique: two could hold one key", key, quoted)
		fix = fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (%s)", quoted, key)
	default:
		return nil
	}
	return &lockstore.UnsafeError{Clause: clause, Problem: problem, Fix: fix}
}

// missingTable names the audit table and how to get one, when that is what is
// missing: it is made on request only.
func (s *Store) missingTable(doing string, err error) error {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	if refused == nil || refused.Code != pgerrcode.UndefinedTable || !strings.Contains(refused.Message, s.names.Audit) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, &lockstore.UnsafeError{
		Clause: "K-3.1", Problem: fmt.Sprintf("there is no audit table %s to record it in", s.names.Quoted(s.names.Audit)), Fix: migrateCommand + " --audit",
	})
}
