package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// crashable is a lockdb on a server that waits for the disk, and may be crashed.
func crashable(t *testing.T) (*pgtest.Single, pgtest.DB) {
	t.Helper()
	single := pgtest.Crashable(t, 16)
	db := single.EmptyDB(t)
	catalogue, err := flyway.Load(flyway.Location{FS: migrations.FS, Dir: "lockdb"})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		t.Fatal(err)
	}
	_, err = migrator.Up(t.Context())
	if err := errors.Join(err, migrator.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return single, db
}

func crashableOptions(t *testing.T, db pgtest.DB) postgres.Options {
	t.Helper()
	// There is no paydb here.
	return postgres.Options{Config: db.Config(t, "t_lockapp"), Purpose: postgres.Granting, AllowSameInstance: true, LockTimeout: 30 * time.Second}
}

// The server is crashed under 16 clients, again and again: what they are told is
// still explained, a token is never issued twice and none falls.
//
// Clauses: K-1.3, K-1.4, K-2.9
// Mutation: synchronous_commit = off in lock_entry_order and the store; or
// TestTokenShownBeforeCommit.
func TestHistoryThroughCrashes(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const wanted = 3
	var crashes atomic.Int64
	soaked := over(soak(t))
	least := locktest.Stats{Clients: 16, Keys: 8, Ops: 3_000, Takeovers: 30, Unknown: 30}
	workload := locktest.Workload{
		Clients: clients(t, least.Clients, single.Server, crashableOptions(t, db)), Keys: least.Keys, Seed: seed, Least: least,
		Until: func() bool { return crashes.Load() >= wanted && soaked() }, Limit: 8*time.Minute + soak(t),
	}
	var history locktest.History
	var group errgroup.Group
	group.Go(func() (err error) {
		defer cancel()
		history, err = workload.Run(ctx)
		return err
	})
	for wait(ctx, time.Second) {
		if workload.Until() {
			continue // what is still wanted comes sooner without crashes
		}
		single.Crash(t)
		single.Start(t)
		crashes.Add(1)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d crashes", crashes.Load())
	if crashes.Load() < wanted {
		t.Errorf("%d crashes, want at least %d", crashes.Load(), wanted)
	}
	locktest.Require(t, history, rules(), least)
}

// rules are those of this backend, whose own capabilities the conformance suite
// compares with what is declared here.
func rules() locktest.Rules { return locktest.RulesOf(capabilities()) }

// wait tells whether so much time has passed and ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
