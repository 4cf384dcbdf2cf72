package owner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

const (
	// DefaultLockTimeout bounds each wait for a lock: above the longest grant or
	// posting by far, below an operator's patience.
	DefaultLockTimeout = 5 * time.Second

	connectTimeout = 5 * time.Second
	watchEvery     = 50 * time.Millisecond
	// tries is how often a blocked transaction is run, when those in its way may
	// be ended: others may have queued behind them.
	tries = 4
	// goneWithin is how long an ended process may take to go.
	goneWithin = 5 * time.Second
)

// Hook is told the name of each statement after the server has answered it. An
// error ends the run there, as a death of the process would.
type Hook func(ctx context.Context, statement string) error

// Options configure Open.
type Options struct {
	// Config is where the database is, and Database what errors call it.
	Config   *pgx.ConnConfig
	Database string
	// LockTimeout defaults to DefaultLockTimeout.
	LockTimeout time.Duration
	// Terminate ends who is in the way of a lock, once the lock timeout has passed.
	Terminate bool
	// AsLogin keeps the login's own rights: there are tables that are no dlock_owner's.
	AsLogin bool
	// After may be nil.
	After Hook
}

// Conn is a connection, and a second one for looking who is in its way. It
// serves one caller at a time.
type Conn struct {
	opts          Options
	conn, watcher *pgx.Conn
}

// Open connects. It returns *UnreachableError.
func Open(ctx context.Context, opts Options) (*Conn, error) {
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = DefaultLockTimeout
	}
	c := &Conn{opts: opts}
	var err error
	if c.conn, err = c.connect(ctx); err != nil {
		return nil, err
	}
	if c.watcher, err = c.connect(ctx); err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// Fresh opens another connection like this one: to look at what was committed
// with eyes that saw nothing of it.
func (c *Conn) Fresh(ctx context.Context) (*Conn, error) { return Open(ctx, c.opts) }

func (c *Conn) connect(ctx context.Context) (*pgx.Conn, error) {
	config := c.opts.Config.Copy()
	// Nothing stays in the server's session: a pooler may stand between (K-12.3).
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.RuntimeParams["client_encoding"] = "UTF8"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "dlockctl"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, &UnreachableError{Doing: "connect to " + c.opts.Database, Err: err}
	}
	return conn, nil
}

// Close closes both connections; what was not committed is rolled back.
func (c *Conn) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	for _, conn := range []*pgx.Conn{c.conn, c.watcher} {
		if conn != nil {
			_ = conn.Close(ctx) // given up: nobody is left to tell
		}
	}
}

// Reader is the connection outside of any transaction, with the login's own
// rights.
func (c *Conn) Reader() *pgx.Conn { return c.conn }

// Read runs fn in a read-only transaction of one snapshot, with the login's own
// rights.
func (c *Conn) Read(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, c.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
	return c.explain(ctx, doing, err)
}

// Tx is a transaction of dlock_owner.
type Tx struct {
	pgx.Tx
	step string
	hook Hook
}

// Do runs one statement and tells the hook its name.
func (t *Tx) Do(ctx context.Context, name, sql string, args ...any) (rows int64, err error) {
	tag, err := t.Exec(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return tag.RowsAffected(), t.Done(ctx, name)
}

// Done tells the hook that a statement was answered which Do did not run.
func (t *Tx) Done(ctx context.Context, name string) error {
	if t.hook == nil {
		return nil
	}
	return t.hook(ctx, t.step+": "+name)
}

// Run runs fn as dlock_owner, or as the login, under READ COMMITTED and commits, once or, when it may end
// who is in the way, a few times. step names it to the hook, doing in errors. It
// returns *BlockedError, *RightsError, *UnreachableError, *UnknownOutcomeError,
// or what fn returned.
func (c *Conn) Run(ctx context.Context, step, doing string, fn func(context.Context, *Tx) error) error {
	for try := 1; ; try++ {
		err := c.once(ctx, step, doing, fn)
		blocked, ok := errors.AsType[*BlockedError](err)
		if !ok || !c.opts.Terminate || try == tries {
			return err
		}
		if err := c.terminate(ctx, doing, blocked.Blockers); err != nil {
			return err
		}
	}
}

func (c *Conn) once(ctx context.Context, step, doing string, fn func(context.Context, *Tx) error) (err error) {
	tx, err := c.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return c.explain(ctx, doing, err)
	}
	ended, committing := false, false
	stop := func() []Process { return nil }
	defer func() {
		if !ended { // fn panicked: nothing may be left open behind it
			stop()
			c.Close(ctx)
		}
	}()
	err = func() error {
		var pid int32
		if err := tx.QueryRow(ctx, settings, strconv.FormatInt(c.opts.LockTimeout.Milliseconds(), 10)+"ms").Scan(&pid); err != nil {
			return err
		}
		if !c.opts.AsLogin {
			if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+instance.OwnerRole); err != nil {
				return err
			}
		}
		stop = watch(ctx, c.watcher, pid)
		t := &Tx{Tx: tx, step: step, hook: c.opts.After}
		if err := fn(ctx, t); err != nil {
			return err
		}
		committing = true
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		committing = false
		return t.Done(ctx, "commit")
	}()
	blockers := stop()
	ended = true
	if err == nil {
		return nil
	}
	if !c.conn.IsClosed() {
		c.rollback(ctx)
	}
	switch {
	case committing && gone(err):
		return &UnknownOutcomeError{Doing: doing, Err: err}
	case hasCode(err, pgerrcode.LockNotAvailable), hasCode(err, pgerrcode.QueryCanceled) && len(blockers) > 0:
		return &BlockedError{Doing: doing, Blockers: blockers}
	}
	return c.explain(ctx, doing, err)
}

// settings hold for the transaction only, and answer with the process that may
// come to wait.
const settings = `
SELECT pg_backend_pid()
  FROM (SELECT set_config('lock_timeout', $1, true),
               CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN set_config('synchronous_commit', 'on', true) END) s`

func (c *Conn) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	if _, err := c.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = c.conn.Close(ctx) // closing rolls back as well
	}
}

// explain adds what was being done, and says which right is missing.
func (c *Conn) explain(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case Denied(err) && !c.opts.AsLogin:
		missing, lookErr := c.Rights(ctx)
		if lookErr == nil && len(missing) > 0 {
			return &RightsError{Doing: doing, Login: c.Login(), Missing: missing}
		}
	case c.conn.IsClosed():
		return &UnreachableError{Doing: doing, Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Login is the role that is logged in.
func (c *Conn) Login() string { return c.opts.Config.User }

// PIDs are the server processes of both connections, as the server announced
// them: behind a pooler they are the pooler's.
func (c *Conn) PIDs() []int32 {
	return []int32{int32(c.conn.PgConn().PID()), int32(c.watcher.PgConn().PID())} //nolint:gosec // the server's own are int32
}
