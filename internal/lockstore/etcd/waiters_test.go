package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// An entry tells how many stand in the queue of its key, and of no other: "k" is the
// beginning of "k/2".
//
// Mutation: read the queue's prefix without its slash in Show, or count by the whole name in look.
func TestEntryTellsItsWaiters(t *testing.T) {
	t.Parallel()
	opts := options(t)
	holder := newClient(t, opts, "holder", time.Hour)
	tokens := map[string]lockstore.Token{}
	for _, key := range []string{"k", "k/2"} {
		tokens[key] = holder.lock(t, key)
	}
	var group errgroup.Group
	for i, key := range []string{"k/2", "k", "k/2"} {
		waiter := newClient(t, opts, "waiter", time.Hour)
		group.Go(func() error {
			grant, err := waiter.Wait(t.Context(), lockstore.WaitParams{AcquireParams: waiter.wants(key), Max: time.Minute})
			if err == nil {
				_, err = waiter.Release(t.Context(), key, grant.Token)
			}
			return err
		})
		waiting(t, holder.Store, i+1)
	}
	entries, err := holder.List(t.Context(), lockstore.Filter{Prefix: "k"})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, want := range []int{1, 2} {
		shown, err := holder.Show(t.Context(), entries[i].Key)
		if err != nil || shown.Waiters != want || entries[i].Waiters != want {
			t.Errorf("%s: %d in the list, %d shown, %v; want %d", entries[i].Key, entries[i].Waiters, shown.Waiters, err, want)
		}
	}
	for key, token := range tokens {
		holder.release(t, key, token, false)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// waits has a client wait for "k" and give it back.
func (c client) waits(ctx context.Context) error {
	grant, err := c.Wait(ctx, lockstore.WaitParams{AcquireParams: c.wants("k"), Max: time.Minute})
	if err != nil {
		return fmt.Errorf("%s waits: %w", c.owner, err)
	}
	_, err = c.Release(ctx, "k", grant.Token)
	return err
}

// A waiter that was killed keeps nobody behind it from a free key, though its session
// lives on.
//
// Clauses: K-2.8, K-10.1
// Mutation: hang the place on the session's lease in enter.
func TestKilledWaiterIsPassed(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	holder, killed, next := newClient(t, opts, "holder", time.Hour), newClient(t, opts, "killed", time.Hour), newClient(t, opts, "next", time.Hour)
	token := holder.lock(t, "k")
	var group errgroup.Group
	group.Go(func() error { return killed.waits(t.Context()) })
	waiting(t, holder.Store, 1)
	killed.Close() // it cannot leave any more
	if err := group.Wait(); err == nil {
		t.Fatal("a closed store was granted the key")
	}
	group = errgroup.Group{}
	group.Go(func() error { return next.waits(t.Context()) })
	eventually(t, "the next waits behind it", func(ctx context.Context) (bool, error) {
		places, err := raw.Get(ctx, opts.Prefix+"queue/k/"+string(next.id), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && places.Count == 1, err
	})
	holder.release(t, "k", token, false)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if session, err := holder.Session(t.Context(), killed.id); err != nil || session.Remaining <= 0 {
		t.Errorf("the session of the one that was killed: %+v, %v, want alive: this proves nothing", session, err)
	}
}

// Who begins to wait takes a free key from nobody who waits already and has not noticed
// yet, and his own from nobody.
//
// Clauses: K-2.8, K-2.2, K-10.1
// Mutation: leave the comparison of the queue out of txn, or behind on for whoever
// re-enters.
func TestNobodyJumpsTheQueue(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	late := newClient(t, opts, "late", time.Hour)
	before := opts.Prefix + "queue/k/somebody"
	stand := func() {
		t.Helper()
		if _, err := raw.Put(t.Context(), before, ""); err != nil {
			t.Fatal(err)
		}
	}
	stand()
	params := lockstore.WaitParams{AcquireParams: late.wants("k"), Max: 300 * time.Millisecond}
	grant, err := late.Wait(t.Context(), params)
	if timeout := (*lockstore.WaitTimeoutError)(nil); !errors.As(err, &timeout) {
		t.Errorf("while another waits: granted %+v, %v, want a timeout", grant, err)
	}
	if _, err := raw.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	params.Max = time.Minute
	if grant, err = late.Wait(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	stand()
	if again, err := late.Wait(t.Context(), params); err != nil || again.Token <= grant.Token {
		t.Errorf("re-entered with %+v, %v, want a token above %s", again, err, grant.Token)
	}
}

// An election ends neither a wait nor a watch: who waits is granted the key afterwards,
// and who watches is told what has changed meanwhile.
//
// Clauses: K-2.8, K-10.1
// Mutation: return each error of stand from run; leave outlives out of Watch.
func TestWaitAndWatchOutliveAnElection(t *testing.T) {
	t.Parallel()
	opts := options(t)
	holder := newClient(t, opts, "holder", time.Hour)
	token := holder.lock(t, "k")
	var electing atomic.Bool
	var refused atomic.Int32
	without := hooked(opts, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		if electing.Load() {
			refused.Add(1)
			return clientv3.OpResponse{}, rpctypes.ErrNoLeader
		}
		return next.Do(ctx, op)
	})
	waiter := newClient(t, without, "waiter", time.Hour)
	var group errgroup.Group
	group.Go(func() error { return waiter.waits(t.Context()) })
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{meanwhile: func() {}}
	group.Go(func() error {
		if err := waiter.Watch(ctx, lockstore.Filter{Prefix: "other"}, w.tell); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("watch: %w", err)
		}
		return nil
	})
	waiting(t, holder.Store, 1)
	holder.lock(t, "other/1")
	w.has(t, "held other/1 by holder")
	for i, change := range []func(){func() { holder.lock(t, "other/2") }, func() { holder.release(t, "k", token, false) }} {
		electing.Store(true)
		before := refused.Load()
		change()
		eventually(t, fmt.Sprintf("change %d is looked at without a leader", i), func(context.Context) (bool, error) { return refused.Load() > before+1, nil })
		electing.Store(false)
	}
	w.has(t, "held other/1 by holder", "held other/2 by holder")
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// A waiter whose place is gone by the time that it asks for the key, as of one that stood
// still for long, has lost its turn, and goes behind who came meanwhile.
//
// Clauses: K-2.8, K-10.1
// Mutation: leave the comparison of the place out of txn.
func TestLostPlaceIsALostTurn(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	queue := opts.Prefix + "queue/k/"
	holder := newClient(t, opts, "holder", time.Hour)
	token := holder.lock(t, "k")
	var asked, lost atomic.Bool
	slow := newClient(t, hooked(opts, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		_, then, _ := op.Txn()
		leaves := len(then) > 0 && then[len(then)-1].IsDelete()
		if leaves && asked.CompareAndSwap(false, true) {
			if _, err := raw.Delete(ctx, queue, clientv3.WithPrefix()); err != nil {
				t.Error(err)
			}
			if _, err := raw.Put(ctx, queue+"somebody", ""); err != nil {
				t.Error(err)
			}
			lost.Store(true)
		}
		return next.Do(ctx, op)
	}), "slow", time.Hour)
	var group errgroup.Group
	group.Go(func() error { return slow.waits(t.Context()) })
	waiting(t, holder.Store, 1)
	holder.release(t, "k", token, false)
	eventually(t, "the one that lost its turn waits again", func(ctx context.Context) (bool, error) {
		places, err := raw.Get(ctx, queue+string(slow.id), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && lost.Load() && places.Count == 1, err
	})
	if entry, err := holder.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
		t.Errorf("out of turn: %+v, %v", entry, err)
	}
	if _, err := raw.Delete(t.Context(), queue+"somebody"); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
