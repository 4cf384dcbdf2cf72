package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// waiting counts who stands in queues.
func waiting(t *testing.T, store *etcd.Store, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d wait", n), func(ctx context.Context) (bool, error) {
		pulse, err := store.Pulse(ctx, 0)
		return pulse.Waiting == n, err
	})
}

// Those who wait are granted in the order in which they came, one at each release; one
// that gives up, and one whose session is over, keep nobody behind them.
//
// Clauses: K-2.8, K-10.1
// Mutation: watch the lock in place of the one before; leave the queue's key when a
// waiter gives up, or do not hang it on a lease.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	holder := newClient(t, opts, "holder", time.Hour)
	token := holder.lock(t, "k")
	var mu sync.Mutex
	var order []string
	var group errgroup.Group
	enter := func(ctx context.Context, c client) {
		group.Go(func() error {
			grant, err := c.Wait(ctx, lockstore.WaitParams{AcquireParams: c.wants("k"), Max: time.Minute})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, context.Canceled):
				order = append(order, c.owner+" gave up")
				return nil
			case errors.Is(err, lockstore.ErrSessionLost), err != nil && c.owner == "killed":
				order = append(order, c.owner+" died")
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", c.owner, err)
			}
			order = append(order, c.owner)
			_, err = c.Release(ctx, "k", grant.Token)
			return err
		})
	}
	givesUp, stop := context.WithCancel(t.Context())
	for i, owner := range []string{"first", "second", "third", "fourth"} {
		ctx := t.Context()
		if owner == "second" {
			ctx = givesUp
		}
		enter(ctx, newClient(t, opts, owner, time.Hour))
		waiting(t, holder.Store, i+1)
	}
	dead, killed := newClient(t, opts, "dead", time.Hour), newClient(t, opts, "killed", time.Hour)
	enter(t.Context(), dead)
	waiting(t, holder.Store, 5)
	enter(t.Context(), killed)
	waiting(t, holder.Store, 6)
	enter(t.Context(), newClient(t, opts, "last", time.Hour))
	waiting(t, holder.Store, 7)
	stop()
	waiting(t, holder.Store, 6)
	killed.Close() // it cannot leave any more
	for _, id := range []lockstore.SessionID{dead.id, killed.id} {
		if _, err := holder.EndSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	waiting(t, holder.Store, 4)
	holder.release(t, "k", token, false)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	want := []string{"first", "third", "fourth", "last"}
	var granted []string
	for _, who := range order {
		if !strings.HasSuffix(who, " gave up") && !strings.HasSuffix(who, " died") {
			granted = append(granted, who)
		}
	}
	if fmt.Sprint(granted) != fmt.Sprint(want) || len(order) != 7 {
		t.Errorf("in the order %q, want %q, and three that left", order, want)
	}
	waiting(t, holder.Store, 0)
}

// A waiter whose own lease has lapsed is told so, and is never granted the key, though
// it becomes free while it waits (etcd#11456).
//
// Clauses: K-2.3, K-10.1
// Mutation: take the comparison of the session out of the granting transaction, and its
// look at the session out of the wait.
func TestWaiterWithADeadSession(t *testing.T) {
	t.Parallel()
	opts := options(t)
	holder, waiter := newClient(t, opts, "holder", time.Hour), newClient(t, opts, "waiter", time.Second)
	token := holder.lock(t, "k")
	var group errgroup.Group
	group.Go(func() error { // without SessionTTL: nobody keeps it alive
		grant, err := waiter.Wait(t.Context(), lockstore.WaitParams{AcquireParams: waiter.wants("k"), Max: time.Minute})
		if !errors.Is(err, lockstore.ErrSessionLost) {
			return fmt.Errorf("granted %+v, %w, want ErrSessionLost", grant, err)
		}
		return nil
	})
	waiter.lapse(t, holder.Store)
	holder.release(t, "k", token, false)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if entry, err := holder.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
		t.Errorf("the key: %+v, %v, want nobody's", entry, err)
	}
}

// A wait ends when its time is over, keeps its session alive meanwhile, and tells who
// holds the key; a holder that lapses wakes it.
//
// Clauses: K-2.8, K-10.1
// Mutation: leave keepAlive out.
func TestWaitOutlastsItsSession(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	// A wait that is told a shorter time for the session renews the lease all the same, and
	// an hour leaves room for it.
	dies, waiter := newClient(t, opts, "dies", time.Hour), newClient(t, opts, "waiter", time.Hour)
	token := dies.lock(t, "k")
	aged := func(what string, want func(age int64) bool) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, error) {
			left, err := waiter.lease(ctx, raw, opts)
			return err == nil && want(left.GrantedTTL-left.TTL), err
		})
	}
	const old = 4 // seconds
	var timeout *lockstore.WaitTimeoutError
	params := lockstore.WaitParams{AcquireParams: waiter.wants("k"), Max: 50 * time.Millisecond, SessionTTL: 2 * time.Second}
	if _, err := waiter.Wait(t.Context(), params); !errors.As(err, &timeout) || timeout.Key != "k" {
		t.Errorf("a wait of 50ms: %v, want a timeout", err)
	}
	aged("the waiter's lease has some age", func(age int64) bool { return age >= old })
	told, grant := lockstore.Token(0), lockstore.Grant{}
	params.Max, params.Waiting = patience, func(held *lockstore.HeldError) { told = held.Token }
	var group errgroup.Group
	group.Go(func() (err error) { grant, err = waiter.Wait(t.Context(), params); return err })
	aged("the waiter's lease is renewed", func(age int64) bool { return age < old })
	dies.end(t, opts)
	err := group.Wait()
	if err != nil || grant.Token <= token || told != token {
		t.Errorf("after the holder lapsed: %+v, %v, told of %s", grant, err, told)
	}
	if record, err := waiter.GrantHistory(t.Context(), token); err != nil || record.Ended != "taken_over" {
		t.Errorf("the holder's grant: %+v, %v", record, err)
	}
}

// seen is one change as a test names it.
func seen(change lockstore.Change) string {
	return fmt.Sprintf("%s %s by %s", change.Kind, change.Key, change.Owner)
}

// watcher collects what a watch tells.
type watcher struct {
	// meanwhile is done once, when what stood was listed and is not followed yet.
	meanwhile func()
	once      sync.Once
	mu        sync.Mutex
	changes   []string
}

func (w *watcher) tell(change lockstore.Change) error {
	w.once.Do(w.meanwhile)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, seen(change))
	return nil
}

func (w *watcher) has(t *testing.T, want ...string) {
	t.Helper()
	var have []string
	eventually(t, fmt.Sprintf("told %q", want), func(context.Context) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if have = append([]string{}, w.changes...); len(have) > len(want) {
			return false, fmt.Errorf("told %q", have)
		}
		return fmt.Sprint(have) == fmt.Sprint(want), nil
	})
}

// hasOne waits for one of two stories.
func (w *watcher) hasOne(t *testing.T, one, other []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("told %q or %q", one, other), func(context.Context) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Equal(w.changes, one) || slices.Equal(w.changes, other), nil
	})
}

// A watch tells each change, also of a grant between two looks that a poll would miss,
// what stands first; a session that ends is told of each of its locks.
//
// Clauses: K-10.1
// Mutation: follow from the present instead of the revision that was listed.
func TestWatch(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice, bob := newClient(t, opts, "alice", time.Hour), newClient(t, opts, "bob", time.Hour)
	alice.lock(t, "app/1")
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{meanwhile: func() { bob.lock(t, "app/0") }}
	var group errgroup.Group
	group.Go(func() error { return alice.Watch(ctx, lockstore.Filter{Prefix: "app/"}, w.tell) })
	told := []string{"held app/1 by alice", "held app/0 by bob"}
	w.has(t, told...)
	bob.lock(t, "other")
	for range 3 {
		bob.release(t, "app/2", bob.lock(t, "app/2"), false)
		told = append(told, "held app/2 by bob", "gone app/2 by bob")
	}
	w.has(t, told...)
	if _, err := bob.EndSession(t.Context(), alice.id); err != nil {
		t.Fatal(err)
	}
	// The end of the session and that of its lock come by two streams, in either order: a
	// lock that is gone has not lapsed.
	w.hasOne(t, append(slices.Clone(told), "lapsed app/1 by alice", "gone app/1 by alice"), append(slices.Clone(told), "gone app/1 by alice"))
	cancel()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that was stopped: %v", err)
	}
	if err := bob.Watch(t.Context(), lockstore.Filter{Limit: 1}, w.tell); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a watch with a limit: %v, want ErrInvalid", err)
	}
}

// A watch whose revision is compacted away before it could follow looks at what stands,
// tells what differs, and goes on.
//
// Clauses: K-10.1
// Mutation: take a compacted revision for an error, or follow without a new look.
func TestWatchGoesOnOverACompaction(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1}) // a compaction is of all that it holds
	opts := etcd.Options{Endpoints: cluster.Endpoints(), Timeout: 20 * time.Second, DialTimeout: 20 * time.Second}
	alice, bob := newClient(t, opts, "alice", time.Hour), newClient(t, opts, "bob", time.Hour)
	first := alice.lock(t, "k")
	alice.lock(t, "stays")
	raw := cluster.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{meanwhile: func() {
		alice.release(t, "k", first, false)
		bob.release(t, "missed", bob.lock(t, "missed"), false)
		bob.lock(t, "new")
		now, err := raw.Get(t.Context(), "now")
		if err == nil {
			_, err = raw.Compact(t.Context(), now.Header.Revision)
		}
		if err != nil {
			t.Errorf("compact: %v", err)
		}
	}}
	var group errgroup.Group
	group.Go(func() error { return alice.Watch(ctx, lockstore.Filter{}, w.tell) })
	told := []string{"held k by alice", "held stays by alice", "held new by bob", "gone k by alice"}
	w.has(t, told...)
	bob.lock(t, "z")
	w.has(t, append(told, "held z by bob")...)
	cancel()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that was stopped: %v", err)
	}
}

// Who waits for a key stands behind nobody that waits for another, however its name
// goes on.
//
// Clauses: K-2.8, K-10.1
// Mutation: leave the slash out of escape.
func TestQueuesOfKeysAreApart(t *testing.T) {
	t.Parallel()
	opts := options(t)
	holder := newClient(t, opts, "holder", time.Hour)
	long, short := holder.lock(t, "a/b"), holder.lock(t, "a")
	var group errgroup.Group
	enter := func(key string, then func()) {
		c := newClient(t, opts, "waits for "+key, time.Hour)
		group.Go(func() error {
			_, err := c.Wait(t.Context(), lockstore.WaitParams{AcquireParams: c.wants(key), Max: time.Minute})
			then()
			return err
		})
	}
	enter("a/b", func() {})
	waiting(t, holder.Store, 1)
	enter("a", func() { holder.release(t, "a/b", long, false) })
	waiting(t, holder.Store, 2)
	holder.release(t, "a", short, false)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
