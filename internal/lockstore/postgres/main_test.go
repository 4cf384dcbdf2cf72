package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// bundle is a migrated pair of databases and a store on lockdb, logged in as
// the service is.
type bundle struct {
	dbs   pgtest.Databases
	store *postgres.Store
	super *pgx.Conn
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return bundle{dbs: dbs, store: open(t, options(t, dbs)), super: dbs.Lock.Conn(t, "super")}
}

// options wait for a lock as long as others need it on a busy machine; who tests that
// it ends sets a shorter LockTimeout.
func options(t *testing.T, dbs pgtest.Databases) postgres.Options {
	t.Helper()
	return postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting, MaxConns: 40, LockTimeout: time.Minute}
}

func open(t *testing.T, opts postgres.Options) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), opts)
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
	if _, err := b.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b bundle) session(t *testing.T, owner string) lockstore.SessionID {
	t.Helper()
	session, err := b.store.CreateSession(t.Context(), owner, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

func (b bundle) acquire(t *testing.T, key, owner string, session lockstore.SessionID, ttl time.Duration) lockstore.Grant {
	t.Helper()
	grant, err := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: owner, Session: session, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// endSession moves the end of a session into the past.
func (b bundle) endSession(t *testing.T, id lockstore.SessionID) {
	t.Helper()
	b.exec(t, `ALTER TABLE lock_session DISABLE TRIGGER lock_session_guard`)
	b.exec(t, `UPDATE lock_session SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE session_id = $1`, string(id))
	b.exec(t, `ALTER TABLE lock_session ENABLE ALWAYS TRIGGER lock_session_guard`)
}

// lapse waits until lockdb's own clock says that the lease is over.
func (b bundle) lapse(t *testing.T, key string) {
	t.Helper()
	pgtest.Eventually(t, "the lease of "+key+" lapses", func(ctx context.Context) (bool, error) {
		entry, err := b.store.Show(ctx, key)
		return entry.Expired, err
	})
}
