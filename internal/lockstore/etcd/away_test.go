package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// Where no member is to be reached any more, a watch ends and says so, be it that it has
// told of changes before, or that it was just about to follow them.
//
// Clauses: K-10.1
// Mutation: leave askOn out of follow, or ask once the watches are set.
func TestWatchTellsThatTheClusterIsGone(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"as it begins", "as it follows"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
			opts := etcd.Options{Endpoints: cluster.Endpoints(), Timeout: 3 * time.Second, DialTimeout: patience}
			alice := newClient(t, opts, "alice", time.Hour)
			alice.lock(t, "k")
			w := &watcher{meanwhile: func() {
				if when == "as it begins" {
					cluster.Kill(t, 0)
				}
			}}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var group errgroup.Group
			group.Go(func() error { return alice.Watch(ctx, lockstore.Filter{}, w.tell) })
			w.has(t, "held k by alice")
			if when == "as it follows" {
				alice.lock(t, "z")
				w.has(t, "held k by alice", "held z by alice")
				cluster.Kill(t, 0)
			}
			unreachable := (*lockstore.UnreachableError)(nil)
			if err := group.Wait(); !errors.As(err, &unreachable) || ctx.Err() != nil {
				t.Errorf("it ended with: %v", err)
			}
		})
	}
}

// A watch goes on when the cluster is back in time, and tells what has changed since.
//
// Clauses: K-10.1
// Mutation: return what askOn returns from Watch.
func TestWatchGoesOnWhenTheClusterIsBack(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	opts := etcd.Options{Endpoints: cluster.Endpoints(), Timeout: 10 * time.Second, DialTimeout: patience}
	alice := newClient(t, opts, "alice", time.Hour)
	alice.lock(t, "k")
	var unanswered atomic.Int32
	watching := open(t, hooked(opts, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		got, err := next.Do(ctx, op)
		if err != nil {
			unanswered.Add(1)
		}
		return got, err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{meanwhile: func() { cluster.Kill(t, 0) }}
	var group errgroup.Group
	group.Go(func() error { return watching.Watch(ctx, lockstore.Filter{}, w.tell) })
	eventually(t, "the cluster is missed", func(context.Context) (bool, error) { return unanswered.Load() > 0, nil })
	cluster.Restart(t, 0)
	alice.lock(t, "z")
	w.has(t, "held k by alice", "held z by alice")
	cancel()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that was stopped: %v", err)
	}
}
