package flyway

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// poolerProbes is how often the question is asked: what other clients do at the same
// moment can hide a pooler once, hardly ever three times.
const poolerProbes = 3

// refusePooler returns a *PoolerError when statements of this connection reach
// different backends (K-12.3).
//
// A server announces its backend's own process id when a connection starts; a
// pooler announces a number of its own. Where they agree nothing stands between.
// Where they differ it may still be a pooler in session mode, which is harmless. So
// the question is asked again, which finds one that hands out backends in turn; and
// once more while a second connection holds a backend, which finds one that hands
// out the last one used.
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

// probePooler fails when the connection has left the backend it was first served by,
// by itself or because other took it.
func (m *Migrator) probePooler(ctx context.Context, other *pgx.Conn, first uint32) error {
	again, err := backendPID(ctx, m.conn)
	if err != nil {
		return err
	}
	tx, err := other.Begin(ctx)
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()        // and if not, closing the connection ends it
	if _, err := backendPID(ctx, tx); err != nil { // the first statement is what takes a backend
		return err
	}
	last, err := backendPID(ctx, m.conn)
	if err != nil {
		return err
	}
	for _, pid := range []uint32{again, last} {
		if pid != first {
			return &PoolerError{First: first, Second: pid}
		}
	}
	return nil
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
