package etcd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// TestMain is a holder where the test binary was started as one.
func TestMain(m *testing.M) {
	if place := os.Getenv(holderVariable); place != "" {
		if err := hold(context.Background(), place, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	etcdtest.Main(m)
	leaktest.Exit()
}

// options are a place of its own on the shared member.
func options(t *testing.T) etcd.Options {
	t.Helper()
	return etcd.Options{Endpoints: etcdtest.Single(t).Endpoints(), TLS: etcdtest.Single(t).TLS(), Prefix: etcdtest.Prefix(t), Timeout: 20 * time.Second}
}

func open(t *testing.T, opts etcd.Options) *etcd.Store {
	t.Helper()
	store, err := etcd.Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(store.Close)
	return store
}

func session(t *testing.T, store lockstore.Store, owner string, ttl time.Duration) lockstore.SessionID {
	t.Helper()
	session, err := store.CreateSession(t.Context(), owner, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

// client is one store and a session of its own.
type client struct {
	*etcd.Store
	owner string
	id    lockstore.SessionID
}

func newClient(t *testing.T, opts etcd.Options, owner string, ttl time.Duration) client {
	t.Helper()
	store := open(t, opts)
	return client{store, owner, session(t, store, owner, ttl)}
}

func (c client) wants(key string) lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: key, Owner: c.owner, Session: c.id, TTL: time.Minute}
}

func (c client) lock(t *testing.T, key string) lockstore.Token {
	t.Helper()
	grant, err := c.Acquire(t.Context(), c.wants(key))
	if err != nil {
		t.Fatal(err)
	}
	return grant.Token
}

func (c client) release(t *testing.T, key string, token lockstore.Token, stale bool) {
	t.Helper()
	if got, err := c.Release(t.Context(), key, token); err != nil || got.Stale != stale {
		t.Errorf("release %q with token %s: %+v, %v, want stale %t", key, token, got, err, stale)
	}
}

// lease is the one that the client's session hangs on.
func (c client) lease(ctx context.Context, raw *clientv3.Client, opts etcd.Options) (*clientv3.LeaseTimeToLiveResponse, error) {
	got, err := raw.Get(ctx, opts.Prefix+"alive/"+string(c.id))
	if err != nil {
		return nil, err
	}
	if len(got.Kvs) != 1 {
		return nil, fmt.Errorf("the session of %s is over", c.owner)
	}
	return raw.TimeToLive(ctx, clientv3.LeaseID(got.Kvs[0].Lease))
}

// end takes away what says that the client's session is alive, as the cluster does when
// its lease is over. Made by hand it comes when a test has done what is to be before it.
func (c client) end(t *testing.T, opts etcd.Options) {
	t.Helper()
	if got, err := etcdtest.Single(t).Client(t).Delete(t.Context(), opts.Prefix+"alive/"+string(c.id)); err != nil || got.Deleted != 1 {
		t.Fatalf("end the session of %s: %+v, %v", c.owner, got, err)
	}
}

// lapse waits until the cluster has ended the client's session.
func (c client) lapse(t *testing.T, by *etcd.Store) {
	t.Helper()
	eventually(t, "the session of "+c.owner+" lapses", func(ctx context.Context) (bool, error) {
		session, err := by.Session(ctx, c.id)
		return session.Remaining <= 0, err
	})
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, ask func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ask(ctx)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it never did", what)
		case <-tick.C:
		}
	}
}
