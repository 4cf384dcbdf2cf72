package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// lockServer serves a lockdb until the test ends, and returns where.
func lockServer(t *testing.T, dbs pgtest.Databases, keysFile string) string {
	t.Helper()
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewMetrics("lock-server")
	service, err := lockserver.New(lockserver.Options{
		Store: postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp")}, NoPayments: true, Log: log, Metrics: metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	frame, err := httpd.New(httpd.Options{Name: "lock-server", Listen: "127.0.0.1:0", KeysFile: keysFile, Log: log, Metrics: metrics, Ready: service.Ready})
	if err != nil {
		t.Fatal(err)
	}
	service.Register(frame.API())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, frame.Serve) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + frame.Addr().String()
}

func connect(t *testing.T, opts client.Options) *client.Locks {
	t.Helper()
	l, err := client.NewLocks(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	// It opens lockdb in its own time.
	pgtest.Eventually(t, "lock-server is there", func(ctx context.Context) (bool, error) {
		_, err := l.Show(ctx, "nobody's")
		_, away := errors.AsType[*lockstore.UnreachableError](err)
		return !away, nil
	})
	return l
}

// The suite that every backend passes, over lock-server: whoever holds a Locks cannot
// tell it from the store itself.
//
// Clauses: K-1.3, K-2.2, K-2.3, K-2.4, K-2.6, K-2.7, K-2.8, K-2.10, K-2.12, K-3.1, K-3.3, K-3.4, K-3.5, K-11
// Mutation: those of locktest's own test; leave one of lockapi's values out of a
// method of Locks; or put the session into List's query.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Backend{
				Declared: lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true},
				Database: func(t *testing.T) func(t *testing.T) lockstore.Store {
					url := lockServer(t, pgtest.Migrated(t, major), "")
					return func(t *testing.T) lockstore.Store { return connect(t, client.Options{URL: url, Wrap: noSession(t)}) }
				},
			})
		})
	}
}

// noSession wants no session id in any address, for addresses are logged on the way.
func noSession(t *testing.T) func(http.RoundTripper) http.RoundTripper {
	t.Helper()
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("session_id") {
				t.Errorf("%s %s holds a session id", r.Method, r.URL.Path)
			}
			return base.RoundTrip(r)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Who waits in the server's queue gets the lock when it is released, its promise counted
// from after the wait; one whose time runs out is told who holds it.
//
// Clauses: K-2.8, K-2.10
// Mutation: leave refreshed out of Wait, or wait_ms out of acquire.
func TestWait(t *testing.T) {
	t.Parallel()
	l := connect(t, client.Options{URL: lockServer(t, pgtest.Migrated(t, 16), "")})
	holder, waiter := session(t, l, "holder"), session(t, l, "waiter")
	const lease = 6 * time.Second // far more than the answer takes to come and the renewal to go
	grant, err := l.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "holder", Session: holder, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	params := lockstore.WaitParams{
		AcquireParams: lockstore.AcquireParams{Key: "k", Owner: "waiter", Session: waiter, TTL: lease}, Max: 300 * time.Millisecond, SessionTTL: time.Minute,
	}
	_, err = l.Wait(t.Context(), params)
	timeout, ok := errors.AsType[*lockstore.WaitTimeoutError](err)
	if !ok || timeout.Waited < 200*time.Millisecond {
		t.Fatalf("the wait ran out: %v", err)
	}
	if held, ok := errors.AsType[*lockstore.HeldError](err); !ok || held.Token != grant.Token {
		t.Errorf("the wait ran out: %v, want the holder's token %s", err, grant.Token)
	}
	waiting := make(chan *lockstore.HeldError, 1)
	params.Max, params.Waiting = time.Minute, func(held *lockstore.HeldError) { waiting <- held }
	type answer struct {
		grant lockstore.Grant
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		grant, err := l.Wait(t.Context(), params)
		answers <- answer{grant, err}
	}()
	if held := <-waiting; held.Owner != "holder" {
		t.Errorf("waiting for %+v", held)
	}
	<-time.After(lease / 4) // a wait that counts
	freed := time.Now()
	if _, err := l.Release(t.Context(), "k", grant.Token); err != nil {
		t.Fatalf("release: %v", err)
	}
	got := <-answers
	if got.err != nil || got.grant.Token <= grant.Token || got.grant.Owner != "waiter" || got.grant.Session != waiter {
		t.Fatalf("after the release: %+v, %v", got.grant, got.err)
	}
	if early := freed.Sub(got.grant.Sent); early > lease/8 {
		t.Errorf("the lease of %s counts from %s before the release: from before the wait", lease, early)
	}
}

func session(t *testing.T, l *client.Locks, owner string) lockstore.SessionID {
	t.Helper()
	s, err := l.CreateSession(t.Context(), owner, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// renewals is a lock-server whose renewals a test hears of.
type renewals struct {
	*client.Locks

	done chan lockstore.Grant
}

func (r renewals) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	grant, err := r.Locks.Renew(ctx, key, token, ttl)
	if err == nil {
		r.done <- grant
	}
	return grant, err
}

// GrantHistory takes its time: how soon it must come is not what is tested.
func (r renewals) GrantHistory(ctx context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	return r.Locks.GrantHistory(context.WithoutCancel(ctx), token)
}

// A credential without the right to see session ids still sees the rest, and a lease
// kept over HTTP outlives its term, until an operator revokes it.
//
// Clauses: K-2.10, K-2.12
// Mutation: leave masked out of look, or the journal out of Lease.heard.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := map[string]string{}
	var lines string
	for name, scopes := range map[string][]httpd.Scope{"worker": {httpd.Acquire, httpd.Audit}, "erin": {httpd.Operate, httpd.Audit}} {
		secret, line, err := httpd.NewKey(name, scopes)
		if err != nil {
			t.Fatal(err)
		}
		lines += line + "\n"
		key[name] = filepath.Join(dir, name)
		if err := os.WriteFile(key[name], []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	url := lockServer(t, pgtest.Migrated(t, 16), keys)
	worker, erin := connect(t, client.Options{URL: url, KeyFile: key["worker"]}), connect(t, client.Options{URL: url, KeyFile: key["erin"]})
	const term = 9 * time.Second // two thirds of it may pass without a renewal
	life, err := worker.CreateSession(t.Context(), "w", term)
	if err != nil || life.Owner != "worker/w" {
		t.Fatalf("%+v, %v", life, err)
	}
	grant, err := worker.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "w", Session: life.ID, TTL: term})
	if err != nil || grant.Owner != "worker/w" {
		t.Fatalf("%+v, %v", grant, err)
	}
	keeper := renewals{worker, make(chan lockstore.Grant, 100)}
	ctx, kept := client.Keep(t.Context(), keeper, client.LeaseParams{Grant: grant, Session: life})
	defer kept.Close()
	for _, l := range []*client.Locks{worker, erin} {
		entry, err := l.Show(t.Context(), "k")
		if err != nil || entry.Token != grant.Token || (entry.Session == life.ID) != (l == erin) {
			t.Errorf("show: %+v, %v", entry, err)
		}
	}
	// Until it is renewed when its first term is over.
	for renewed := grant; renewed.ExpiresAt.Before(grant.ExpiresAt.Add(term)); {
		select {
		case <-ctx.Done():
			t.Fatalf("lost while nobody took it: %v", context.Cause(ctx))
		case renewed = <-keeper.done:
		}
	}
	if err := kept.Check(); err != nil {
		t.Fatal(err)
	}
	if entry, err := erin.Show(t.Context(), "k"); err != nil || !entry.SessionExpiresAt.After(life.ExpiresAt.Time) {
		t.Errorf("the session that ended at %s was not kept: %+v, %v", life.ExpiresAt, entry, err)
	}
	if _, err := erin.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: grant.Token, Operator: "erin", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lockstore.ErrLockLost) || !errors.Is(cause, client.ErrRevoked) {
		t.Errorf("revoked: %v", cause)
	}
}
