package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// bundle is an engine at work on a migrated lockdb.
type bundle struct {
	dbs    pgtest.Databases
	store  *postgres.Store
	engine *engine.Engine
	super  *pgx.Conn
}

func setup(t *testing.T) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, 16)
	b := bundle{dbs: dbs, super: dbs.Lock.Conn(t, "super"), store: open(t, options(t, dbs))}
	b.engine = start(t, b.store)
	return b
}

func options(t *testing.T, dbs pgtest.Databases) postgres.Options {
	t.Helper()
	return postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting, MaxConns: 20}
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

// start starts an engine that ends before what was opened before it is closed.
func start(t *testing.T, db engine.Database) *engine.Engine {
	t.Helper()
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	e := engine.New(life, fixed{db}, slog.New(slog.DiscardHandler), noMetrics{})
	var running sync.WaitGroup
	running.Go(e.Run)
	t.Cleanup(func() {
		e.Close()
		running.Wait()
		end()
	})
	return e
}

// fixed is a lockdb that never breaks.
type fixed struct{ db engine.Database }

func (f fixed) Changing() (engine.Database, error) { return f.db, nil }
func (fixed) Granting() error                      { return nil }
func (fixed) Failed(error)                         {}
func (fixed) Saw(lockstore.Token)                  {}

type noMetrics struct{}

func (noMetrics) Granted()                {}
func (noMetrics) Contended()              {}
func (noMetrics) Released()               {}
func (noMetrics) SessionLost()            {}
func (noMetrics) Queued(int)              {}
func (noMetrics) Waiting(int)             {}
func (noMetrics) Batch(int)               {}
func (noMetrics) BatchWait(time.Duration) {}
func (noMetrics) HandOff(time.Duration)   {}

// throughEngine is a store whose locks are taken through an engine.
type throughEngine struct {
	*postgres.Store

	engine *engine.Engine
}

func (s throughEngine) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	sent := time.Now()
	grant, err := s.engine.Acquire(ctx, params, engine.Wait{})
	grant.Sent = sent
	return grant, err
}

func (s throughEngine) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	return s.engine.Release(ctx, key, token)
}

func (b bundle) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := b.super.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b bundle) params(t *testing.T, owner, key string) lockstore.AcquireParams {
	t.Helper()
	session, err := b.store.CreateSession(t.Context(), owner, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return lockstore.AcquireParams{Key: key, Owner: owner, Session: session.ID, TTL: time.Hour}
}

func (b bundle) acquire(t *testing.T, params lockstore.AcquireParams) lockstore.Grant {
	t.Helper()
	grant, err := b.engine.Acquire(t.Context(), params, engine.Wait{})
	if err != nil {
		t.Fatalf("acquire %s: %v", params.Key, err)
	}
	return grant
}

// waiting returns when so many wait for the key.
func (b bundle) waiting(t *testing.T, key string, n int) {
	t.Helper()
	pgtest.Eventually(t, fmt.Sprintf("%d wait for %s", n, key), func(context.Context) (bool, error) { return b.engine.Waiting(key) == n, nil })
}
