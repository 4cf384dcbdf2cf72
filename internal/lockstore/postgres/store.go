package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// DefaultLockTimeout bounds how long a try waits behind another transaction
// before it answers BLOCKED (K-2.11).
const DefaultLockTimeout = 2 * time.Second

// connectTimeout bounds one connection attempt: pgx has none of its own, and a
// black-holed host must end in an error, not in a hang.
const connectTimeout = 5 * time.Second

// Purpose says what a store is opened for, and so which preconditions must hold.
type Purpose int

// The purposes. Each includes the preconditions of those before it.
const (
	// Reading needs a primary of a known schema version (K-6.3).
	Reading Purpose = iota
	// Changing needs two separate instances as well (K-6.1): release, revoke,
	// end and reap go on while grants are closed.
	Changing
	// Granting needs every guard of the token order and an open gate as well
	// (K-1.1, K-1.5, K-7.4).
	Granting
)

// Options configure Open.
type Options struct {
	// Config is where lockdb is. Required.
	Config *pgx.ConnConfig
	// PeerConfig is where paydb is, when that is known; otherwise the identity
	// that `migrate up` recorded in lockdb is compared (K-6.1).
	PeerConfig *pgx.ConnConfig
	// AllowSameInstance lets locks and money stand on one instance, on a laptop.
	AllowSameInstance bool
	// Environment is what lockdb must be marked as, when it is marked.
	Environment string
	// Purpose defaults to Reading.
	Purpose Purpose
	// LockTimeout defaults to DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxConns defaults to pgxpool's.
	MaxConns int32

	pooled bool // a test's: as if a pooler stood between
}

// Store is a lockstore.Store on lockdb.
type Store struct {
	pool        *pgxpool.Pool
	lockTimeout string
	pooled      bool
}

var _ lockstore.Store = (*Store)(nil)

// Capabilities declares what this backend is: the reference of the others.
func (s *Store) Capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

// Open connects to lockdb and checks what the purpose requires. It returns
// *lockstore.UnreachableError, lockstore.ErrNotPrimary, ErrSameInstance,
// *UnsafeError, *GrantsClosedError, *SchemaError or *instance.EnvironmentError.
func Open(ctx context.Context, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(opts.Config.ConnString())
	if err != nil {
		return nil, fmt.Errorf("prepare the connections to lockdb: %w", err)
	}
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = DefaultLockTimeout
	}
	s := &Store{lockTimeout: milliseconds(opts.LockTimeout), pooled: opts.pooled}
	config.ConnConfig = prepare(opts.Config)
	config.AfterConnect = s.settle
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: "open lockdb", Err: err}
	}
	s.pool = pool
	if err := s.check(ctx, opts); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// milliseconds writes a time-out as PostgreSQL reads it; 0 would be none at all.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}

// sessionSettings are the transaction settings of tx.go for the whole session,
// where the server's session is this connection's own: the process id that the
// server announced is the one that answers. A pooler announces a number of its
// own, and its servers' sessions are left as they are (K-12.3).
const sessionSettings = `
SELECT pg_backend_pid() = $1::bigint,
       CASE WHEN pg_backend_pid() = $1::bigint THEN set_config('lock_timeout', $2, false) END,
       CASE WHEN pg_backend_pid() = $1::bigint THEN set_config('default_transaction_isolation', 'read committed', false) END,
       CASE WHEN pg_backend_pid() = $1::bigint AND current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', false) END`

const directKey = "dlockctl.direct"

// settle looks whether a pooler stands between, and sets the session up when
// none does: each change is then its one statement, as fast as it can be.
func (s *Store) settle(ctx context.Context, conn *pgx.Conn) error {
	var direct bool
	var ignored *string
	err := conn.QueryRow(ctx, sessionSettings, pgx.QueryExecModeExec, int64(conn.PgConn().PID()), s.lockTimeout).Scan(&direct, &ignored, &ignored, &ignored)
	if err != nil {
		return fmt.Errorf("set the session up: %w", err)
	}
	conn.PgConn().CustomData()[directKey] = direct && !s.pooled
	return nil
}

func isDirect(conn *pgx.Conn) bool {
	direct, known := conn.PgConn().CustomData()[directKey].(bool)
	return known && direct
}

// prepare returns a copy of config that leaves no state in the server's
// session: statements are described once and cached on this side only, so that
// a transaction-pooling proxy may hand each transaction to another session
// (K-12.3).
func prepare(config *pgx.ConnConfig) *pgx.ConnConfig {
	c := config.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	// Keys are compared byte by byte: a role's or a database's own encoding would
	// make two keys of one.
	c.RuntimeParams["client_encoding"] = "UTF8"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "dlockctl"
	}
	return c
}

// Close closes the connections; it waits for those in use.
func (s *Store) Close() { s.pool.Close() }
