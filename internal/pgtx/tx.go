package pgtx

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
)

const (
	// Begin is READ COMMITTED, whatever the role's default: repeatable read would
	// answer what was only overtaken with 40001 (K-2.11).
	Begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

	// Settings hold for one transaction only: no session state (K-12.3), and no
	// change acknowledged that a crash undoes (K-1.4). Its parameter is the lock
	// timeout, as [Milliseconds] writes it.
	Settings = `SELECT set_config('lock_timeout', $1, true),
       CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', true) END`

	// DeadlockTries bounds how often a deadlocked change is run at all.
	DeadlockTries = 4

	// rollbackTimeout bounds the clean-up of a refused transaction; past it the
	// connection is thrown away, which rolls back as well.
	rollbackTimeout = 2 * time.Second
)

// Change runs one statement as a transaction of its own in one round trip, and
// returns only after its commit has answered (K-1.4). A deadlock rolled everything
// back and is tried again, a few times (K-2.4); scan is called anew for each try.
// The fate says what became of it.
func Change(ctx context.Context, conn *pgx.Conn, lockTimeout, sql string, args []any, scan func(pgx.Rows) error) (Fate, error) {
	var fate Fate
	err := RetryDeadlock(ctx, func() error {
		var err error
		if Direct(conn) {
			err = runDirect(ctx, conn, sql, args, scan)
		} else {
			err = pipeline(ctx, conn, lockTimeout, sql, args, scan)
		}
		fate = FateOf(err)
		return err
	})
	return fate, err
}

// runDirect needs nothing around the statement: the server's session is this
// connection's own, and was set up by Settle.
func runDirect(ctx context.Context, conn *pgx.Conn, sql string, args []any, scan func(pgx.Rows) error) error {
	if _, err := conn.Prepare(ctx, sql, sql); err != nil {
		return &UnsentError{err}
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what was being done
	}
	// Closing the rows, which scan does, reads on to the answer of the commit.
	return scan(rows)
}

func pipeline(ctx context.Context, conn *pgx.Conn, lockTimeout, sql string, args []any, scan func(pgx.Rows) error) error {
	batch := &pgx.Batch{}
	batch.Queue(Begin)
	batch.Queue(Settings, lockTimeout)
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	err := readPipeline(conn.SendBatch(ctx, batch), scan)
	if err != nil && !conn.IsClosed() {
		Rollback(ctx, conn)
	}
	return err
}

// readPipeline reads every answer in order: the rows count for nothing until
// COMMIT has said COMMIT.
func readPipeline(results pgx.BatchResults, scan func(pgx.Rows) error) (err error) {
	defer func() {
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}()
	for range 2 { // begin, settings
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	if err := scan(rows); err != nil {
		return err
	}
	tag, err := results.Exec()
	if err != nil {
		return err
	}
	if tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// Rollback ends a refused transaction even when the caller has gone, so that the
// connection serves the next one.
func Rollback(ctx context.Context, conn *pgx.Conn) {
	if conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Close(ctx) // closing rolls back as well
	}
}

// Transaction runs a change of several statements; after a deadlock fn is called
// anew. fn must show nothing to anybody before Transaction has returned nil. What
// fails before COMMIT is sent was not done, whatever became of the connection: the
// fate says which of the two it was.
func Transaction(ctx context.Context, conn *pgx.Conn, lockTimeout string, fn func(pgx.Tx) error) (Fate, error) {
	var fate Fate
	err := RetryDeadlock(ctx, func() (err error) {
		fate, err = steps(ctx, conn, lockTimeout, fn)
		return err
	})
	return fate, err
}

func steps(ctx context.Context, conn *pgx.Conn, lockTimeout string, fn func(pgx.Tx) error) (Fate, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fateBefore(conn, err), fmt.Errorf("begin: %w", err)
	}
	if _, err = tx.Exec(ctx, Settings, lockTimeout); err == nil {
		err = fn(tx)
	}
	if err != nil {
		if !conn.IsClosed() {
			Rollback(ctx, conn)
		}
		return fateBefore(conn, err), err
	}
	err = tx.Commit(ctx)
	return FateOf(err), err
}

// RetryDeadlock repeats op after 40P01 only: PostgreSQL rolled it back whole. A
// lost answer is never repeated here.
func RetryDeadlock(ctx context.Context, op func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := op()
		if err != nil && !HasCode(err, pgerrcode.DeadlockDetected) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(DeadlockTries), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 3, MaxInterval: 100 * time.Millisecond,
	}))
	return err
}
