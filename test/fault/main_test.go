// Package fault_test proves the money order with real faults: operating-system
// processes that are stopped and killed in the middle of a payout, two databases, and
// a rail that counts what reaches it.
package fault_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// TestMain is a worker where the test binary was started as one.
func TestMain(m *testing.M) {
	if order := os.Getenv(orderVariable); order != "" {
		os.Exit(work(context.Background(), order, os.Stdin, os.Stdout))
	}
	pgtest.Main(m)
}

// The seeded account that pays.
const account = "00000000-0000-4000-8000-000000000001"

// world is two migrated databases, who looks on, and the rail.
type world struct {
	dbs       pgtest.Databases
	lock, pay *pgx.Conn
	rail      *railServer
}

func setup(t *testing.T, major int) world {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return world{dbs: dbs, lock: dbs.Lock.Conn(t, "super"), pay: dbs.Pay.Conn(t, "super"), rail: newRailServer(t)}
}

// eachMajor runs test on every PostgreSQL version supported.
func eachMajor(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, major))
		})
	}
}

// value reads one value.
func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// lapse waits until lockdb's own clock says that the lease is over.
func (w world) lapse(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, "the lease lapses", func(ctx context.Context) (lapsed bool, err error) {
		err = w.lock.QueryRow(ctx, `SELECT expires_at <= now() FROM lock_entry WHERE lock_key = $1`, lockKey(account)).Scan(&lapsed)
		return lapsed, err
	})
}
