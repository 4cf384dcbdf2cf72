//go:build pooler

package pooler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// lockServer serves the lockdb behind a connection until the test ends.
func lockServer(t *testing.T, store postgres.Options) *client.Locks {
	t.Helper()
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewMetrics("lock-server")
	service, err := lockserver.New(lockserver.Options{Store: store, NoPayments: true, Log: log, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	frame, err := httpd.New(httpd.Options{Name: "lock-server", Listen: "127.0.0.1:0", Log: log, Metrics: metrics, Ready: service.Ready})
	if err != nil {
		t.Fatal(err)
	}
	service.Register(frame.API())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, frame.Serve) }()
	locks, err := client.NewLocks(client.Options{URL: "http://" + frame.Addr().String(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		locks.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	pgtest.Eventually(t, "lock-server grants", func(ctx context.Context) (bool, error) {
		for _, condition := range service.Ready(ctx) {
			if condition.State == httpd.Failed {
				return false, nil
			}
		}
		return true, nil
	})
	return locks
}

// lock-server's lanes, its look for waiters and its reaper share two connections of a
// pooler: calls of many keys go in one transaction, waiters of one key are handed it in
// turn, a session that lapses is reaped, and each token is above the one before.
//
// Clauses: K-12.3, K-2.4, K-2.8
// Mutation: set DefaultQueryExecMode to QueryExecModeCacheStatement, or a batch's lock timeout for the session.
func TestLockServerBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	config := throughPooler(t, dbs.Lock, "t_lockapp")
	connect(t, config)
	locks := lockServer(t, postgres.Options{Config: config})
	lapses, err := locks.CreateSession(t.Context(), "lapses", 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Acquire(t.Context(), lockstore.AcquireParams{Key: "reaped", Owner: "lapses", Session: lapses.ID, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	const clients, rounds = 16, 5
	var mu sync.Mutex
	byKey := map[string][]lockstore.Token{}
	group, ctx := errgroup.WithContext(t.Context())
	for i := range clients {
		group.Go(func() error {
			owner := fmt.Sprint("client-", i)
			session, err := locks.CreateSession(ctx, owner, time.Minute)
			if err != nil {
				return err
			}
			for round := range rounds {
				// One key that all want, and one of its own.
				for _, key := range []string{"hot", fmt.Sprint("own-", i)} {
					grant, err := locks.Wait(ctx, lockstore.WaitParams{
						AcquireParams: lockstore.AcquireParams{Key: key, Owner: owner, Session: session.ID, TTL: time.Minute}, Max: time.Minute,
					})
					if err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
					mu.Lock()
					byKey[key] = append(byKey[key], grant.Token)
					mu.Unlock()
					if _, err := locks.Renew(ctx, key, grant.Token, time.Minute); err != nil {
						return err
					}
					if released, err := locks.Release(ctx, key, grant.Token); err != nil || released.Stale {
						return fmt.Errorf("release: %+v, %w", released, err)
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(byKey["hot"]); n != clients*rounds || len(byKey) != clients+1 {
		t.Errorf("%d grants of the hot key, want %d; %d keys", n, clients*rounds, len(byKey))
	}
	for key, tokens := range byKey {
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Fatalf("%s: token %s was held after %s", key, tokens[i], tokens[i-1])
			}
		}
	}
	pgtest.Eventually(t, "the lapsed session is reaped", func(ctx context.Context) (bool, error) {
		left, err := locks.Sessions(ctx, lockstore.SessionFilter{Owner: "lapses"})
		return len(left) == 0, err
	})
}
