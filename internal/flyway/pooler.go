package flyway

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// poolerProbes is how often the question is asked: a pooler that hands out backends in
// turn can give the same one back once, and so can what other clients do.
const poolerProbes = 3

// refusePooler returns a *PoolerError when statements of this connection reach
// different backends (K-12.3).
//
// A server announces its backend's own process id when a connection starts; a
// pooler announces a number of its own. Where they agree nothing stands between.
// Where they differ it may still be a pooler in session mode, which is harmless. So
// the question is asked again while a second connection holds a backend: then one
// that lends backends has to serve the first from another.
func (m *Migrator) refusePooler(ctx context.Context) error {
	first, err := backendPID(ctx, m.conn)
	if err != nil || first == m.conn.PgConn().PID() {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, m.config)
	if err != nil {
		return fmt.Errorf("connect a second time to look for a pooler: %w", err)
	}
	for range poolerProbes {
		if err = m.probePooler(ctx, other, first); err != nil {
			break
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return errors.Join(err, other.Close(closing))
}

// probePooler fails when the connection has left the backend it was first served by.
func (m *Migrator) probePooler(ctx context.Context, other *pgx.Conn, first uint32) error {
	tx, err := other.Begin(ctx)
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // and if not, closing the connection ends it
	now, err := backendPID(ctx, m.conn)
	if err == nil && now != first {
		err = &PoolerError{First: first, Second: now}
	}
	return err
}

type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func backendPID(ctx context.Context, q queryRower) (uint32, error) {
	var pid int64
	if err := q.QueryRow(ctx, `SELECT pg_backend_pid()::bigint`).Scan(&pid); err != nil {
		return 0, fmt.Errorf("ask for the backend: %w", err)
	}
	return uint32(pid), nil //nolint:gosec // process ids are positive 32-bit numbers
}
