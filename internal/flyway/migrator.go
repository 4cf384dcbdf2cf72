package flyway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultLockTimeout is about as long as Flyway itself polls for its lock.
const DefaultLockTimeout = 50 * time.Second

// cleanupTimeout bounds what must still be said to the server after the caller's
// context has ended: rollback, unlock, terminate.
const cleanupTimeout = 5 * time.Second

// Options of a Migrator. The zero value is usable.
type Options struct {
	LockTimeout time.Duration // for Flyway's lock, and for each lock a migration waits for; default 50s
	Owner       string        // role that owns what migrations create (SET ROLE); "" is the login itself (K-9.5)
	Progress    func(Event)   // told about each step, from the goroutine that called; may be nil
	Schema      string        // schema of the history and first in the search path; "" is the connection's current_schema
	Table       string        // name of the history; "" is TableName
	Guest       bool          // the schema is somebody else's too: it may hold anything before the first migration
}

// EventKind is what an Event tells.
type EventKind string

// Kinds of events, in the order in which one migration can produce them.
const (
	EventWaiting EventKind = "waiting" // the lock is held by somebody else; Message names them
	EventStarted EventKind = "started"
	EventNotice  EventKind = "notice" // the server's NOTICE or WARNING in Message
	EventApplied EventKind = "applied"
	EventFailed  EventKind = "failed"
	EventWarning EventKind = "warning" // something Up tolerates, for instance a future version
)

// Event is progress of Up, Baseline or Repair.
type Event struct {
	Kind    EventKind
	Script  string
	Version string
	Message string
	Elapsed time.Duration // of the migration, or of the wait
}

// Migrator keeps one schema. It owns one connection and is not safe for concurrent use.
type Migrator struct {
	config    *pgx.ConnConfig
	conn      *pgx.Conn
	catalogue *Catalogue
	opts      Options
	table     table
	running   string // the script whose notices are arriving
}

// Open connects and finds the schema; it changes nothing. Config is copied.
func Open(ctx context.Context, config *pgx.ConnConfig, catalogue *Catalogue, opts Options) (*Migrator, error) {
	opts.LockTimeout, opts.Table = cmp.Or(opts.LockTimeout, DefaultLockTimeout), cmp.Or(opts.Table, TableName)
	if opts.LockTimeout < 0 {
		return nil, fmt.Errorf("%w: lock timeout %s is negative; give a positive one", ErrArgument, opts.LockTimeout)
	}
	if opts.Progress == nil {
		opts.Progress = func(Event) {}
	}
	m := &Migrator{catalogue: catalogue, opts: opts}
	m.config = m.prepare(config)
	if err := m.connect(ctx); err != nil {
		return nil, err
	}
	schema, err := m.findSchema(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	m.table = table{schema, opts.Table}
	return m, nil
}

// prepare sets what the scanner and the error positions rely on. Both parameters are
// ones that poolers let through, so that the pooler check can speak.
func (m *Migrator) prepare(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["standard_conforming_strings"] = "on"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "dlockctl migrate" // what a waiting migrator will be shown
	}
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if m.running != "" {
			m.opts.Progress(Event{Kind: EventNotice, Script: m.running, Message: notice.Severity + ": " + notice.Message})
		}
	}
	return config
}

func (m *Migrator) connect(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, m.config)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	m.conn = conn
	return nil
}

func (m *Migrator) findSchema(ctx context.Context) (string, error) {
	const sql = `SELECT coalesce(nullif($1, ''), current_schema(), ''),
	EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = coalesce(nullif($1, ''), current_schema()))`
	var schema string
	var exists bool
	if err := m.conn.QueryRow(ctx, sql, m.opts.Schema).Scan(&schema, &exists); err != nil {
		return "", fmt.Errorf("find schema: %w", err)
	}
	switch {
	case schema == "":
		return "", errNoSchema
	case !exists:
		return "", fmt.Errorf("schema %q does not exist; create it, owned by the role that migrates", schema)
	}
	return schema, nil
}

// Close ends the connection and with it any lock.
func (m *Migrator) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := m.conn.Close(ctx); err != nil {
		return fmt.Errorf("close migration connection: %w", err)
	}
	return nil
}

// begin starts a transaction whose every statement sees what was committed before
// it, whatever the role's defaults: the history is read after the lock was won. Settings
// that an earlier file left behind are gone.
func (m *Migrator) begin(ctx context.Context) (pgx.Tx, error) {
	if err := m.reset(ctx); err != nil {
		return nil, err
	}
	tx, err := m.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// reset takes back whatever a file has set for the session.
func (m *Migrator) reset(ctx context.Context) error {
	if _, err := m.conn.Exec(ctx, "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL"); err != nil {
		return fmt.Errorf("reset the session: %w", err)
	}
	return nil
}

// rollback ends tx even after the caller's context has ended.
func (m *Migrator) rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		// A connection whose state is in doubt is not used again; closing it rolls back too.
		_ = m.conn.Close(ctx)
	}
}

// setUp gives the session the role, the search path and the time limits under which
// migrations run, for this transaction or, when local is false, until RESET.
func (m *Migrator) setUp(ctx context.Context, db executor, local bool) error {
	if m.opts.Owner != "" {
		if _, err := db.Exec(ctx, `SELECT set_config('role', $1, $2)`, m.opts.Owner, local); err != nil {
			return ownerError(m.opts.Owner, err)
		}
	}
	// statement_timeout is meant for the application's statements, not for an index over a full table;
	// the context bounds those. The path is Flyway's: the history's schema, then what was there.
	const sql = `SELECT set_config('statement_timeout', '0', $1), set_config('lock_timeout', $2, $1),
	set_config('search_path', quote_ident($3) || coalesce(', ' || nullif(current_setting('search_path'), ''), ''), $1)`
	timeout := fmt.Sprintf("%dms", max(1, m.opts.LockTimeout.Milliseconds()))
	if _, err := db.Exec(ctx, sql, local, timeout, m.table.schema); err != nil {
		return fmt.Errorf("set up the session: %w", err)
	}
	return nil
}

func ownerError(owner string, err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok &&
		(pgErr.Code == pgerrcode.InvalidParameterValue || pgErr.Code == pgerrcode.InsufficientPrivilege) {
		return fmt.Errorf("become %s, the owner of the schema (run `dlockctl migrate roles` first): %w", owner, err)
	}
	return fmt.Errorf("become %s: %w", owner, err)
}

// writable refuses servers and connections on which a migration must not start.
func (m *Migrator) writable(ctx context.Context) error {
	if m.conn.IsClosed() {
		if err := m.connect(ctx); err != nil {
			return err
		}
	}
	var standby bool
	if err := m.conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby); err != nil {
		return fmt.Errorf("ask for the server's role: %w", err)
	}
	if standby {
		return ErrStandby
	}
	return m.refusePooler(ctx)
}
