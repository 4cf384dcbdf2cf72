package paystore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// Purpose says what a database is opened for, and so which preconditions must
// hold.
type Purpose int

// The purposes. Each includes the preconditions of those before it.
const (
	// Reading needs a primary of a known schema version (K-6.3).
	Reading Purpose = iota
	// Changing needs two separate instances, the right environment and every
	// guard as well (K-6.1, K-4.10). A closed gate does not refuse it: postings,
	// releases and resolutions go on (K-7.9).
	Changing
)

// Options configure Open.
type Options struct {
	// Config is where paydb is. Required. Its Tracer sees every statement.
	Config *pgx.ConnConfig
	// PeerConfig is where lockdb is, when that is known; otherwise the identity
	// that `migrate up` recorded in paydb is compared (K-6.1).
	PeerConfig *pgx.ConnConfig
	// AllowSameInstance lets locks and money stand on one instance, on a laptop.
	AllowSameInstance bool
	// Environment is what paydb must be marked as, when it is marked.
	Environment string
	// Purpose defaults to Reading.
	Purpose Purpose
	// LockTimeout defaults to pgtx.DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxConns defaults to pgxpool's.
	MaxConns int32
	// Pooled treats the server as if a transaction-pooling proxy stood between,
	// also where none is seen (K-12.3).
	Pooled bool
}

// DB is paydb under one login: the connections, and how a change becomes a
// transaction. What is changed is the business of posting and rail, each with a
// DB of its own (K-6.2).
type DB struct {
	pool        *pgxpool.Pool
	lockTimeout string
}

// Open connects to paydb and checks what the purpose requires. It returns
// *UnreachableError, ErrNotPrimary, ErrSameInstance, *UnsafeError, *SchemaError,
// *flyway.HistoryError, *instance.VersionError or *instance.EnvironmentError.
func Open(ctx context.Context, opts Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(opts.Config.ConnString())
	if err != nil {
		return nil, fmt.Errorf("prepare the connections to paydb: %w", err)
	}
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = pgtx.DefaultLockTimeout
	}
	d := &DB{lockTimeout: pgtx.Milliseconds(opts.LockTimeout)}
	config.ConnConfig = pgtx.Config(opts.Config)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		return pgtx.Settle(ctx, conn, d.lockTimeout, opts.Pooled)
	}
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, &UnreachableError{Doing: "open paydb", Err: err}
	}
	if err := d.check(ctx, opts); err != nil {
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the connections; it waits for those in use.
func (d *DB) Close() { d.pool.Close() }

// Change runs one statement as a transaction of its own in one round trip, and
// returns only after its commit has answered. A deadlock is tried again, a few
// times; scan is called anew for each try, and must read rows to their end. doing
// is a bare verb phrase for the error; about is the account or payout it is about,
// whose blockers a *BlockedError names, or "".
//
// Beside what the statement's own guards raise as *pgconn.PgError it returns
// *UnreachableError, *UnknownOutcomeError, *BlockedError, *GateClosedError,
// ErrOverflow and ErrNotPrimary.
func (d *DB) Change(ctx context.Context, doing, about, sql string, args []any, scan func(pgx.Rows) error) error {
	conn, err := d.acquire(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	fate, err := pgtx.Change(ctx, conn.Conn(), d.lockTimeout, sql, args, scan)
	return d.classify(ctx, conn.Conn(), doing, about, fate, err)
}

// Transaction runs a change of several statements as Change runs one; after a
// deadlock fn is called anew. fn must show nothing to anybody before Transaction
// has returned nil. An error of fn's own is wrapped and everything rolled back.
func (d *DB) Transaction(ctx context.Context, doing, about string, fn func(pgx.Tx) error) error {
	conn, err := d.acquire(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	fate, err := pgtx.Transaction(ctx, conn.Conn(), d.lockTimeout, fn)
	return d.classify(ctx, conn.Conn(), doing, about, fate, err)
}

// Read runs a query that changes nothing. It returns *UnreachableError when the
// server does not answer.
func (d *DB) Read(ctx context.Context, doing, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := d.pool.Query(ctx, sql, args...)
	if err == nil {
		err = scan(rows)
	}
	switch {
	case err == nil:
		return nil
	case pgtx.Unanswered(err):
		return &UnreachableError{Doing: doing, Err: err}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

func (d *DB) acquire(ctx context.Context, doing string) (*pgxpool.Conn, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, &UnreachableError{Doing: doing, Err: err}
	}
	return conn, nil
}

// classify turns what a change ended in into this package's errors.
func (d *DB) classify(ctx context.Context, conn *pgx.Conn, doing, about string, fate pgtx.Fate, err error) error {
	switch fate {
	case pgtx.Done:
		return nil
	case pgtx.Unsent:
		return &UnreachableError{Doing: doing, Err: err}
	case pgtx.Unknown:
		return &UnknownOutcomeError{Doing: doing, Err: err}
	case pgtx.NotDone:
	}
	pgErr, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case !refused:
	case pgErr.Code == pgerrcode.ReadOnlySQLTransaction:
		// A demoted primary: every connection of the pool is to it (K-6.3).
		d.pool.Reset()
		err = fmt.Errorf("it accepts no writes: %w", ErrNotPrimary)
	case pgErr.Code == pgerrcode.LockNotAvailable:
		err = blocked(ctx, conn, about)
	case pgErr.Code == pgerrcode.ObjectNotInPrerequisiteState && pgErr.ConstraintName == "pay_gate":
		err = &GateClosedError{Message: pgErr.Message, Hint: pgErr.Hint}
	case pgErr.Code == pgerrcode.NumericValueOutOfRange:
		err = ErrOverflow
	}
	return fmt.Errorf("%s: %w", doing, err)
}

var blockersQuery = pgtx.Statement(queryFiles, "blockers", "id")

// blocked names the server processes that keep the rows. The refused transaction
// has ended; one that cannot be asked any more names nobody.
func blocked(ctx context.Context, conn *pgx.Conn, about string) error {
	rows, err := conn.Query(ctx, blockersQuery, null(about))
	if err != nil {
		return errors.Join(&BlockedError{}, err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return errors.Join(&BlockedError{}, err)
	}
	return &BlockedError{PIDs: pids}
}
