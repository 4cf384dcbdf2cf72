package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// READ COMMITTED, whatever the role's default: repeatable read would answer
	// a contended acquire with 40001 (K-2.11).
	begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

	// settings hold for this transaction only: no session state (K-12.3), and
	// no change acknowledged that a crash undoes (K-1.4).
	settings = `SELECT set_config('lock_timeout', $1, true),
       CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', true) END`

	// rollbackTimeout bounds the clean-up of a refused transaction; past it the
	// connection is thrown away, which rolls back as well.
	rollbackTimeout = 2 * time.Second

	deadlockTries = 4
)

// change runs one statement as a transaction of its own in one round trip, and
// returns only after its commit has answered (K-1.4). A deadlock rolled everything
// back and is tried again, a few times (K-2.4). doing is a bare verb phrase for
// the error.
func (s *Store) change(ctx context.Context, doing, key, sql string, args []any, scan func(pgx.Rows) error) error {
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = retryDeadlock(ctx, func() error {
		if isDirect(conn.Conn()) {
			return runDirect(ctx, conn.Conn(), sql, args, scan)
		}
		return s.pipeline(ctx, conn.Conn(), sql, args, scan)
	})
	return s.classify(ctx, conn.Conn(), doing, key, err)
}

func (s *Store) acquireConn(ctx context.Context, doing string) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	return conn, nil
}

// runDirect needs nothing around the statement: the server's session is this
// connection's own, and was set up by settle.
func runDirect(ctx context.Context, conn *pgx.Conn, sql string, args []any, scan func(pgx.Rows) error) error {
	if _, err := conn.Prepare(ctx, sql, sql); err != nil {
		return &unsentError{err}
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err //nolint:wrapcheck // classify says what was being done
	}
	// Closing the rows, which scan does, reads on to the answer of the commit.
	return scan(rows)
}

// unsentError is a failure before the statement itself was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }

func (e *unsentError) Unwrap() error { return e.err }

func (s *Store) pipeline(ctx context.Context, conn *pgx.Conn, sql string, args []any, scan func(pgx.Rows) error) error {
	batch := &pgx.Batch{}
	batch.Queue(begin)
	batch.Queue(settings, s.lockTimeout)
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	err := readPipeline(conn.SendBatch(ctx, batch), scan)
	if err != nil && !conn.IsClosed() {
		rollback(ctx, conn)
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

// rollback ends a refused transaction even when the caller has gone, so that
// the connection serves the next one.
func rollback(ctx context.Context, conn *pgx.Conn) {
	if conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Close(ctx) // closing rolls back as well
	}
}

// transaction runs a change of several statements. fn must not show anything
// to anybody before transaction has returned nil. What fails before COMMIT is
// sent was not done, whatever became of the connection.
func (s *Store) transaction(ctx context.Context, doing, key string, fn func(pgx.Tx) error) error {
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	committing := false
	_, err = retryDeadlock(ctx, func() error {
		committing = false
		return s.steps(ctx, conn.Conn(), fn, &committing)
	})
	if _, refused := errors.AsType[*pgconn.PgError](err); err == nil || refused || committing {
		return s.classify(ctx, conn.Conn(), doing, key, err)
	}
	if conn.Conn().IsClosed() {
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (s *Store) steps(ctx context.Context, conn *pgx.Conn, fn func(pgx.Tx) error, committing *bool) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if _, err = tx.Exec(ctx, settings, s.lockTimeout); err == nil {
		err = fn(tx)
	}
	if err != nil {
		if !conn.IsClosed() {
			rollback(ctx, conn)
		}
		return err
	}
	*committing = true
	return tx.Commit(ctx)
}

// retryDeadlock repeats op after 40P01 only: PostgreSQL rolled it back whole.
// A lost answer is never repeated here.
func retryDeadlock(ctx context.Context, op func() error) (struct{}, error) {
	return backoff.Retry(ctx, func() (struct{}, error) {
		err := op()
		if err != nil && !hasCode(err, pgerrcode.DeadlockDetected) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(deadlockTries), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 3, MaxInterval: 100 * time.Millisecond,
	}))
}

// read runs a query that changes nothing.
func (s *Store) read(ctx context.Context, doing, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err == nil {
		err = scan(rows)
	}
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, misread := errors.AsType[pgx.ScanArgError](err)
	switch {
	case err == nil:
		return nil
	case misread:
		return fmt.Errorf("%s: %w", doing, err)
	case refused, !answered, pgErr.SeverityUnlocalized == "FATAL", pgErr.SeverityUnlocalized == "PANIC":
		// A server that starts up, shuts down or crashes says so, and serves nobody.
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
