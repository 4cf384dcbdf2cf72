package pgtx

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// DefaultLockTimeout bounds how long a change waits behind another transaction
// before it gives up (K-2.11).
const DefaultLockTimeout = 2 * time.Second

// connectTimeout bounds one connection attempt: pgx has none of its own, and a
// black-holed host must end in an error, not in a hang.
const connectTimeout = 5 * time.Second

// Milliseconds writes a time-out as PostgreSQL reads it; 0 would be none at all.
func Milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}

// Config returns a copy of config that leaves no state in the server's session:
// statements are described once and cached on this side only, so that a
// transaction-pooling proxy may hand each transaction to another session
// (K-12.3).
func Config(config *pgx.ConnConfig) *pgx.ConnConfig {
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

// sessionSettings are the transaction's [Settings] for the whole session, where
// the server's session is this connection's own: the process id that the server
// announced is the one that answers. A pooler announces a number of its own, and
// its servers' sessions are left as they are (K-12.3).
const sessionSettings = `
SELECT pg_backend_pid() = $1::bigint,
       CASE WHEN pg_backend_pid() = $1::bigint THEN set_config('lock_timeout', $2, false) END,
       CASE WHEN pg_backend_pid() = $1::bigint THEN set_config('default_transaction_isolation', 'read committed', false) END,
       CASE WHEN pg_backend_pid() = $1::bigint AND current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', false) END`

const directKey = "dlockctl.direct"

// Settle looks whether a pooler stands between, and sets the session up when none
// does: a change is then its one statement, as fast as it can be. It is made for
// pgxpool's AfterConnect. pooled behaves as if one stood between.
func Settle(ctx context.Context, conn *pgx.Conn, lockTimeout string, pooled bool) error {
	var direct bool
	var ignored *string
	err := conn.QueryRow(ctx, sessionSettings, pgx.QueryExecModeExec, int64(conn.PgConn().PID()), lockTimeout).Scan(&direct, &ignored, &ignored, &ignored)
	if err != nil {
		return fmt.Errorf("set the session up: %w", err)
	}
	conn.PgConn().CustomData()[directKey] = direct && !pooled
	return nil
}

// Direct tells that Settle found the server's session to be the connection's own.
func Direct(conn *pgx.Conn) bool {
	direct, known := conn.PgConn().CustomData()[directKey].(bool)
	return known && direct
}

// OneTrip asks each question in one round trip: a check that runs once is not
// worth a description first.
type OneTrip struct{ Conn *pgx.Conn }

// Query implements flyway.Querier.
func (q OneTrip) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return q.Conn.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...) //nolint:wrapcheck // who asks says what for
}

// QueryRow implements instance.Querier.
func (q OneTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return q.Conn.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
}
