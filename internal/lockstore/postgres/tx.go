package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// change runs one statement as a transaction of its own in one round trip, and
// returns only after its commit has answered (K-1.4). A deadlock is tried again, a
// few times (K-2.4). doing is a bare verb phrase for the error.
func (s *Store) change(ctx context.Context, doing, key, sql string, args []any, scan func(pgx.Rows) error) error {
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.changeOn(ctx, conn.Conn(), doing, key, sql, args, scan)
}

func (s *Store) changeOn(ctx context.Context, conn *pgx.Conn, doing, key, sql string, args []any, scan func(pgx.Rows) error) error {
	_, err := pgtx.Change(ctx, conn, s.lockTimeout, sql, args, scan)
	return s.classify(ctx, conn, doing, key, err)
}

func (s *Store) acquireConn(ctx context.Context, doing string) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	return conn, nil
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
	fate, err := pgtx.Transaction(ctx, conn.Conn(), s.lockTimeout, fn)
	_, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case fate == pgtx.Unsent:
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	case fate == pgtx.NotDone && !refused:
		return fmt.Errorf("%s: %w", doing, err)
	default:
		return s.classify(ctx, conn.Conn(), doing, key, err)
	}
}

// read runs a query that changes nothing.
func (s *Store) read(ctx context.Context, doing, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err == nil {
		err = scan(rows)
	}
	switch {
	case err == nil:
		return nil
	case pgtx.Unanswered(err):
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
