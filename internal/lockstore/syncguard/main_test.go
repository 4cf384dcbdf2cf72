package syncguard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// bundle is a database with SyncGuard's tables and the audit, and a store on it.
type bundle struct {
	db    pgtest.DB
	store *syncguard.Store
	conn  *pgx.Conn
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	db := database(t, major)
	return bundle{db: db, store: open(t, options(t, db)), conn: db.Conn(t, "t_owner")}
}

// database has SyncGuard's tables as its shipped file makes them, and the audit.
func database(t *testing.T, major int) pgtest.DB {
	t.Helper()
	db := pgtest.Servers(t, major).Lock.EmptyDB(t)
	install(t, db.Conn(t, "t_owner"), syncguard.Options{})
	return db
}

// install makes the tables under the names of the options.
func install(t *testing.T, conn *pgx.Conn, opts syncguard.Options) {
	t.Helper()
	shipped, err := migrations.FS.ReadFile("syncguard/V1__create_locks_and_fence_counters.sql")
	if err != nil {
		t.Fatal(err)
	}
	audit, err := migrations.FS.ReadFile("audit/syncguard/R__keep_audit.sql")
	if err != nil {
		t.Fatal(err)
	}
	names, err := syncguard.NamesOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, ddl := range [][]byte{shipped, audit} {
		if _, err := conn.Exec(t.Context(), names.In(string(ddl))); err != nil {
			t.Fatal(err)
		}
	}
}

// options wait for a lock as long as others need it on a busy machine; who tests that
// it ends sets a shorter LockTimeout.
func options(t *testing.T, db pgtest.DB) syncguard.Options {
	t.Helper()
	return syncguard.Options{Config: db.Config(t, "t_owner"), MaxConns: 20, LockTimeout: time.Minute}
}

func open(t *testing.T, opts syncguard.Options) *syncguard.Store {
	t.Helper()
	store, err := syncguard.Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(store.Close)
	return store
}

// eachMajor runs test on every PostgreSQL version supported.
func eachMajor(t *testing.T, test func(t *testing.T, b bundle)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, major))
		})
	}
}

func (b bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one asks for a single value.
func one[T any](t *testing.T, b bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := b.conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

const serverNow = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// nowMs is the server's clock.
func (b bundle) nowMs(t *testing.T) int64 {
	t.Helper()
	return one[int64](t, b, serverNow)
}

// ends makes the lease of key k end so long from now; a negative time is ago.
func (b bundle) ends(t *testing.T, in time.Duration) {
	t.Helper()
	b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1 WHERE key = 'k'`, in.Milliseconds())
}

func wants(key string, ttl time.Duration) lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: key, Owner: "alice", TTL: ttl}
}

func (b bundle) acquire(t *testing.T, key string, ttl time.Duration) lockstore.Grant {
	t.Helper()
	grant, err := b.store.Acquire(t.Context(), wants(key, ttl))
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// waiting returns when so many sessions of the database wait for a lock.
func (b bundle) waiting(t *testing.T, sessions int) {
	t.Helper()
	pgtest.Eventually(t, fmt.Sprintf("%d sessions wait", sessions), func(ctx context.Context) (bool, error) {
		var n int
		err := b.conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return n >= sessions, err
	})
}
