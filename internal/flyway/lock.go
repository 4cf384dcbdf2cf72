package flyway

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollInterval is how often a waiting migrator asks for the lock. It polls, as
// Flyway does: a blocked waiter would deadlock with CREATE INDEX CONCURRENTLY, and
// no transaction stays open between two questions for the same reason.
const pollInterval = 200 * time.Millisecond

// acquire begins a transaction that holds Flyway's lock, or returns a *LockError
// after the lock timeout, or when ctx ends.
func (m *Migrator) acquire(ctx context.Context) (pgx.Tx, error) {
	start := time.Now()
	told := ""
	for {
		tx, err := m.tryLock(ctx)
		if err != nil {
			return nil, fmt.Errorf("take the migration lock: %w", err)
		}
		if tx != nil {
			return tx, nil
		}
		holders, err := m.holders(ctx)
		if err != nil {
			return nil, err
		}
		waited := time.Since(start)
		if names := holderNames(holders); names != told {
			told = names
			m.opts.Progress(Event{Kind: EventWaiting, Message: "migration lock is held by " + names, Elapsed: waited})
		}
		if waited+pollInterval > m.opts.LockTimeout {
			return nil, &LockError{Key: m.table.lockKey(), Waited: waited, Holders: holders}
		}
		select {
		case <-ctx.Done():
			return nil, &LockError{Key: m.table.lockKey(), Waited: time.Since(start), Holders: holders, Err: context.Cause(ctx)}
		case <-time.After(pollInterval):
		}
	}
}

// tryLock returns a transaction that holds the lock, or nil when somebody else has it.
func (m *Migrator) tryLock(ctx context.Context) (pgx.Tx, error) {
	tx, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	var locked bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, m.table.lockKey()).Scan(&locked); err != nil {
		m.rollback(ctx, tx)
		return nil, fmt.Errorf("ask for lock %d: %w", m.table.lockKey(), err)
	}
	if !locked {
		m.rollback(ctx, tx)
		return nil, nil
	}
	return tx, nil
}

// holders names the sessions of this database that hold the lock.
func (m *Migrator) holders(ctx context.Context) ([]Holder, error) {
	const sql = `SELECT l.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, ''), coalesce(a.xact_start, a.backend_start)
	FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
	WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
	AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
	AND (l.classid::bigint << 32) | l.objid::bigint = $1 ORDER BY l.pid`
	rows, err := m.conn.Query(ctx, sql, m.table.lockKey())
	if err != nil {
		return nil, fmt.Errorf("look who holds the migration lock: %w", err)
	}
	holders, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Holder])
	if err != nil {
		return nil, fmt.Errorf("look who holds the migration lock: %w", err)
	}
	return holders, nil
}

func holderNames(holders []Holder) string {
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = h.String()
	}
	return strings.Join(names, ", ")
}

// keepLock turns the transaction's lock into one of the session, for a file that
// must run outside a transaction. The session holds the lock already, so it is granted
// at once and there is no moment without it.
func (m *Migrator) keepLock(ctx context.Context, tx pgx.Tx) error {
	var locked bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, m.table.lockKey()).Scan(&locked); err != nil {
		return fmt.Errorf("keep lock %d: %w", m.table.lockKey(), err)
	}
	if !locked {
		return fmt.Errorf("keep lock %d: the session does not hold it", m.table.lockKey())
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("keep lock %d: %w", m.table.lockKey(), err)
	}
	return nil
}

// dropLock gives the session's lock back. In any doubt the connection is closed,
// which does the same.
func (m *Migrator) dropLock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var unlocked bool
	err := m.conn.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, m.table.lockKey()).Scan(&unlocked)
	if err != nil || !unlocked {
		_ = m.conn.Close(ctx)
	}
}
