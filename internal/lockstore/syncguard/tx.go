package syncguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

func (s *Store) acquireConn(ctx context.Context, doing string) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	return conn, nil
}

// change runs a transaction. fn must not show anything to anybody before change has
// returned nil (K-1.4). key is what it locks, "" for many. What fails before COMMIT
// is sent was not done, whatever became of the connection.
func (s *Store) change(ctx context.Context, doing, key string, fn func(pgx.Tx) error) error {
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return err
	}
	defer conn.Release()
	fate, err := pgtx.Transaction(ctx, conn.Conn(), s.lockTimeout, fn)
	_, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case fate == pgtx.Unsent:
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	case fate == pgtx.Unknown:
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
	case refused:
		return s.refusal(ctx, conn.Conn(), doing, key, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// refusal turns what the server refused, and so was not done, into the store's
// errors.
func (s *Store) refusal(ctx context.Context, conn *pgx.Conn, doing, key string, err error) error {
	switch {
	case pgtx.HasCode(err, pgerrcode.ReadOnlySQLTransaction):
		// A demoted primary: every connection of the pool is to it (K-6.3).
		s.pool.Reset()
		return fmt.Errorf("%s: it accepts no writes: %w", doing, lockstore.ErrNotPrimary)
	case pgtx.HasCode(err, pgerrcode.LockNotAvailable):
		pids, findErr := s.blockers(ctx, conn, key)
		return fmt.Errorf("%s: %w", doing, errors.Join(&lockstore.BlockedError{Key: key, PIDs: pids}, findErr))
	case pgtx.HasCode(err, pgerrcode.QueryCanceled) && key != "":
		// A statement_timeout of the role's, shorter than the lock timeout, ends the
		// wait for the same reason.
		if pids, findErr := s.blockers(ctx, conn, key); findErr == nil && len(pids) > 0 {
			return fmt.Errorf("%s: %w", doing, &lockstore.BlockedError{Key: key, PIDs: pids})
		}
	case pgtx.HasCode(err, pgerrcode.UndefinedTable):
		return s.missingTable(doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// blockers names the server processes that keep the key.
func (s *Store) blockers(ctx context.Context, conn *pgx.Conn, key string) ([]int32, error) {
	rows, err := conn.Query(ctx, s.sql.blockers, key)
	if err != nil {
		return nil, fmt.Errorf("find who blocks %q: %w", key, err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return nil, fmt.Errorf("find who blocks %q: %w", key, err)
	}
	return pids, nil
}

// read runs a query that changes nothing, and calls scan for each row.
func (s *Store) read(ctx context.Context, doing, sql string, args []any, scan func(pgx.Row) error) error {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err == nil {
		err = scanRows(rows, scan)
	}
	switch {
	case err == nil:
		return nil
	case pgtx.HasCode(err, pgerrcode.UndefinedTable):
		return s.missingTable(doing, err)
	case pgtx.Unanswered(err):
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

func scanRows(rows pgx.Rows, scan func(pgx.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
