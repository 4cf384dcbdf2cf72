package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

func (b bundle) drawn(ctx context.Context, t *testing.T) lockstore.Token {
	t.Helper()
	var last lockstore.Token
	if err := b.super.QueryRow(ctx, `SELECT last_value FROM fencing_token_seq`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	return last
}

// queue has so many waiters stand in line for a held key, and returns what each
// is told, by their names in the order in which they came.
func (b bundle) queue(ctx context.Context, t *testing.T, key string, names ...string) map[string]chan result {
	t.Helper()
	answers := map[string]chan result{}
	standing := b.engine.Waiting(key)
	for i, name := range names {
		params, answer := b.params(t, name, key), make(chan result, 1) //nolint:contextcheck // a session outlives its caller
		answers[name] = answer
		go func() {
			grant, err := b.engine.Acquire(ctx, params, engine.Wait{Most: time.Minute})
			answer <- result{grant, err}
		}()
		b.waiting(t, key, standing+i+1) //nolint:contextcheck // so does the test
	}
	return answers
}

type result struct {
	grant lockstore.Grant
	err   error
}

// Waiters are granted the lock in the order in which they came, each by the very
// transaction that takes it from the last: nobody is between them, tokens rise, and a
// hand-off draws two tokens.
//
// Clauses: K-1.3, K-2.8
// Mutation: take the last of the waiters in promote, or leave them out of takeOf.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := b.acquire(t, b.params(t, "first", "k"))
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("waiter-%02d", i))
	}
	answers := b.queue(t.Context(), t, "k", names...)
	before := b.drawn(t.Context(), t)
	var got []string
	for range names {
		if release, err := b.engine.Release(t.Context(), "k", held.Token); err != nil || release.Stale {
			t.Fatalf("release by %s: %+v, %v", held.Owner, release, err)
		}
		// Whoever has it now, by lockdb's own word; nobody was in between.
		entry, err := b.store.Show(t.Context(), "k")
		if err != nil {
			t.Fatalf("after the release by %s the key is free: %v", held.Owner, err)
		}
		next := <-answers[entry.Owner]
		if next.err != nil || next.grant.Token != entry.Token || next.grant.Token <= held.Token {
			t.Fatalf("%s: %+v after token %s", entry.Owner, next, held.Token)
		}
		held = next.grant
		got = append(got, held.Owner)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("the order (-came +served):\n%s", diff)
	}
	if drawn := b.drawn(t.Context(), t) - before; float64(drawn) > 2.2*float64(len(names)) {
		t.Errorf("%d hand-offs drew %d tokens", len(names), drawn)
	}
}

// A waiter that was too late, since another replica took the lock first, keeps its
// place.
//
// Clauses: K-2.8
// Mutation: put it behind the others in tellAcquire.
func TestWaiterThatIsTooLateKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := newSpy(b.store)
	b.engine = start(t, db)
	held := b.acquire(t, b.params(t, "first", "k"))
	answers := b.queue(t.Context(), t, "k", "a", "b", "c")
	before := b.drawn(t.Context(), t)
	db.blind.Store(true)
	pgtest.Eventually(t, "the first of them tries in vain", func(ctx context.Context) (bool, error) { return b.drawn(ctx, t) > before, nil })
	b.waiting(t, "k", 3)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := b.engine.Release(t.Context(), "k", held.Token); err != nil {
			t.Fatal(err)
		}
		next := <-answers[name]
		if next.err != nil {
			t.Fatalf("%s: %v", name, next.err)
		}
		held = next.grant
	}
}

// A waiter that hangs up leaves the queue, wherever it stands in it, and the next
// is served; in the end nothing is remembered.
//
// Mutation: leave abandon's remove out.
func TestWaiterThatHangsUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := b.acquire(t, b.params(t, "first", "k"))
	ctx, hangUp := context.WithCancel(t.Context())
	gone := b.queue(ctx, t, "k", "a", "b")
	stays := b.queue(t.Context(), t, "k", "c")
	hangUp()
	for name, answer := range gone {
		if r := <-answer; !errors.Is(r.err, context.Canceled) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	b.waiting(t, "k", 1)
	if _, err := b.engine.Release(t.Context(), "k", held.Token); err != nil {
		t.Fatal(err)
	}
	c := <-stays["c"]
	if c.err != nil {
		t.Fatal(c.err)
	}
	if _, err := b.engine.Release(t.Context(), "k", c.grant.Token); err != nil {
		t.Fatal(err)
	}
	if n := b.engine.Remembered(); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Waiters are woken by what this engine did not do itself: another replica's
// release, a revoke, and the end of a lease. They look until then, and burn no token
// by looking.
//
// Clauses: K-2.8
// Mutation: try at every look in lookAt, or do not look again.
func TestWaitersAreWokenByOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, end := range map[string]func(lockstore.Grant) error{
		"another's release": func(g lockstore.Grant) error { _, err := b.store.Release(t.Context(), g.Key, g.Token); return err },
		"a revoke": func(g lockstore.Grant) error {
			_, err := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: g.Key, Token: g.Token, Operator: "erin", Reason: "test"})
			b.engine.LookNow(g.Key)
			return err
		},
		"a session's end": func(g lockstore.Grant) error { _, err := b.store.EndSession(t.Context(), g.Session); return err },
	} {
		held := b.acquire(t, b.params(t, "first", name))
		answers := b.queue(t.Context(), t, name, "second")
		pgtest.Eventually(t, "its first try is refused", func(ctx context.Context) (bool, error) { return b.drawn(ctx, t) > held.Token, nil })
		before := b.drawn(t.Context(), t)
		looked := time.After(5 * engine.LookEvery)
		<-looked
		if drawn := b.drawn(t.Context(), t) - before; drawn != 0 {
			t.Errorf("%s: looking drew %d tokens", name, drawn)
		}
		if err := end(held); err != nil {
			t.Fatal(err)
		}
		if r := <-answers["second"]; r.err != nil || r.grant.Token <= held.Token {
			t.Errorf("%s: %+v", name, r)
		}
	}
	short, next := b.params(t, "first", "lapses"), b.params(t, "second", "lapses")
	short.TTL = 2 * time.Second // so long that the waiter comes before its end, as a rule
	held := b.acquire(t, short)
	grant, err := b.engine.Acquire(t.Context(), next, engine.Wait{Most: time.Minute})
	if err != nil || grant.Token <= held.Token || grant.AcquiredAt.Before(held.ExpiresAt.Time) {
		t.Errorf("a lease that lapsed: %+v, %v after %+v", grant, err, held)
	}
}

// A lease that is said to be all but over, for as long as that goes on, is no reason to
// look all the time.
//
// Clauses: K-2.8
// Mutation: leave soonest out of putOff.
func TestLeaseAtItsEndIsNotLookedAtAllTheTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := newSpy(b.store)
	b.engine = start(t, db)
	held := b.acquire(t, b.params(t, "first", "k"))
	db.brink.Store(true)
	answers := b.queue(t.Context(), t, "k", "second")
	pgtest.Eventually(t, "it is looked at", func(context.Context) (bool, error) { return db.looks.Load() > 0, nil })
	began, before := time.Now(), db.looks.Load()
	<-time.After(5 * engine.LookEvery)
	if n, most := db.looks.Load()-before, 2+int64(time.Since(began)/engine.Soonest); n > most {
		t.Errorf("%d looks in %s, at most %d", n, time.Since(began), most)
	}
	if _, err := b.engine.Release(t.Context(), "k", held.Token); err != nil {
		t.Fatal(err)
	}
	if r := <-answers["second"]; r.err != nil {
		t.Error(r.err)
	}
}

// A waiter whose session dies is told so, and does not wait for nothing.
//
// Clauses: K-2.3
// Mutation: leave lookAtSessions out.
func TestWaiterWhoseSessionDiesIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.acquire(t, b.params(t, "first", "k"))
	session, err := b.store.CreateSession(t.Context(), "second", lockstore.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	b.queue(t.Context(), t, "k", "between") // the head tries, and would be told by its try
	params := lockstore.AcquireParams{Key: "k", Owner: "second", Session: session.ID, TTL: time.Minute}
	if _, err := b.engine.Acquire(t.Context(), params, engine.Wait{Most: time.Minute}); !errors.Is(err, lockstore.ErrSessionLost) {
		t.Errorf("a waiter with a dead session: %v", err)
	}
}

// A wait that runs out says who holds the lock; one that is stopped says that the
// service goes away. Neither leaves anything behind.
//
// Mutation: leave giveUpWaiting's remove out, or return the last refusal as it is.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.acquire(t, b.params(t, "first", "k"))
	_, err := b.engine.Acquire(t.Context(), b.params(t, "second", "k"), engine.Wait{Most: 500 * time.Millisecond})
	timeout, ok := errors.AsType[*lockstore.WaitTimeoutError](err)
	if !ok || timeout.Waited < 500*time.Millisecond || timeout.Key != "k" {
		t.Fatalf("a wait that ran out: %v", err)
	}
	if holder, ok := errors.AsType[*lockstore.HeldError](err); !ok || holder.Owner != "first" || holder.Remaining <= 0 {
		t.Errorf("it names %+v", holder)
	}
	stop := make(chan struct{})
	answers := make(chan error, 3)
	for i := range 3 {
		params := b.params(t, fmt.Sprint("waiter-", i), "k")
		go func() {
			_, err := b.engine.Acquire(t.Context(), params, engine.Wait{Most: time.Minute, Stop: stop})
			answers <- err
		}()
	}
	b.waiting(t, "k", 3)
	close(stop)
	for range 3 {
		if err := <-answers; !errors.Is(err, engine.ErrDraining) {
			t.Errorf("a waiter was told %v", err)
		}
	}
	if n := b.engine.Remembered(); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Many who wait, hang up, time out, acquire and release at once, over two engines
// on one lockdb: at any moment one of them holds the lock, and every one is
// answered.
//
// Clauses: K-1.3, K-2.8
// Mutation: hand a key to two waiters in takeOf, or promote a second head.
func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	engines := []*engine.Engine{b.engine, start(t, open(t, options(t, b.dbs)))}
	var mu sync.Mutex
	var holders []string
	var last lockstore.Token
	var wrong []string
	var running sync.WaitGroup
	for i := range 24 {
		params, e := b.params(t, fmt.Sprint("caller-", i), "k"), engines[i%2]
		running.Go(func() {
			for round := range 6 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if (i+round)%5 == 0 {
					cancel() // it hangs up at once
				}
				grant, err := e.Acquire(ctx, params, engine.Wait{Most: time.Minute})
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				holders = append(holders, grant.Owner)
				if len(holders) > 1 || grant.Token <= last {
					wrong = append(wrong, fmt.Sprintf("%v hold it, the last with token %s after %s", holders, grant.Token, last))
				}
				last = max(last, grant.Token)
				mu.Unlock()
				mu.Lock()
				holders = slices.DeleteFunc(holders, func(h string) bool { return h == grant.Owner })
				mu.Unlock()
				if release, err := e.Release(t.Context(), "k", grant.Token); err != nil || release.Stale {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("release by %s: %+v, %v", grant.Owner, release, err))
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	for _, text := range wrong {
		t.Error(text)
	}
	pgtest.Eventually(t, "what was given back is gone", func(ctx context.Context) (bool, error) {
		entries, err := b.store.List(ctx, lockstore.Filter{})
		return len(entries) == 0, err
	})
	if last == 0 {
		t.Error("nobody was granted anything")
	}
}
