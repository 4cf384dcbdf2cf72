package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func acquireParams(owner string, session lockstore.SessionID, keys ...string) []lockstore.AcquireParams {
	params := make([]lockstore.AcquireParams, len(keys))
	for i, key := range keys {
		params[i] = lockstore.AcquireParams{Key: key, Owner: owner, Session: session, TTL: time.Minute}
	}
	return params
}

// Each key of a batch gets its own answer in the caller's order: granted, held,
// a dead session, blocked; and those that fail take nobody with them.
//
// Clauses: K-2.4
// Mutation: fail the whole batch on one key's error, or answer in key order.
func TestBatchAnswersEachByItself(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		b.acquire(t, "held", "bob", bob, time.Hour)
		tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
		if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('blocked', 'bob', $1, 1, now(), now() + interval '1 hour')`, string(bob)); err != nil {
			t.Fatal(err)
		}

		params := acquireParams("alice", alice, "z", "held", "a", "blocked", "m")
		params = append(params, acquireParams("alice", "00000000-0000-4000-8000-000000000000", "dead")...)
		results, err := b.store.AcquireBatch(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"granted", "held", "granted", "blocked", "granted", "session lost"} {
			var got string
			_, held := errors.AsType[*lockstore.HeldError](results[i].Err)
			_, blocked := errors.AsType[*lockstore.BlockedError](results[i].Err)
			switch {
			case results[i].Err == nil && results[i].Grant.Key == params[i].Key && results[i].Grant.Token > 0:
				got = "granted"
			case held:
				got = "held"
			case blocked:
				got = "blocked"
			case errors.Is(results[i].Err, lockstore.ErrSessionLost):
				got = "session lost"
			}
			if got != want {
				t.Errorf("%s: %+v, want %s", params[i].Key, results[i], want)
			}
		}

		refs := []lockstore.GrantRef{{Key: "z", Token: results[0].Grant.Token}, {Key: "a", Token: results[0].Grant.Token}, {Key: "m", Token: results[4].Grant.Token}, {Key: "z", Token: results[0].Grant.Token}}
		released, err := b.store.ReleaseBatch(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		for i, stale := range []bool{false, true, false, true} {
			if released[i].Stale != stale || released[i].Key != refs[i].Key {
				t.Errorf("release %d: %+v, want stale %t", i, released[i], stale)
			}
		}
		if entry, err := b.store.Show(t.Context(), "a"); err != nil || entry.Token != results[2].Grant.Token {
			t.Errorf("another grant's token released a: %+v, %v", entry, err)
		}
	})
}

// A batch that is wrong in itself sends nothing.
//
// Clauses: K-2.4
// Mutation: drop the duplicate check: PostgreSQL then grants one key twice in a batch.
func TestBatchRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	many := make([]string, lockstore.MaxBatch+1)
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	for name, keys := range map[string][]string{"none": {}, "too many": many, "twice": {"a", "b", "a"}, "empty key": {"a", ""}} {
		if _, err := b.store.AcquireBatch(t.Context(), acquireParams("alice", alice, keys...)); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := b.store.ReleaseBatch(t.Context(), nil); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("an empty release: %v, want ErrInvalid", err)
	}
	if entries, err := b.store.List(t.Context(), lockstore.Filter{}); err != nil || len(entries) != 0 {
		t.Errorf("granted all the same: %+v, %v", entries, err)
	}
}

// Batches of random keys under different sessions, single acquires, reapers and
// bulk revokes together: every caller gets an answer, and is told of every grant that was made.
//
// Clauses: K-2.4, K-3.4
// Mutation: run the batch's keys in the caller's order, without the retry after 40P01.
func TestBatchesReapersAndBulkRevokesTogether(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	const rounds = 30
	var grants atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for w := range 4 {
		owner := fmt.Sprint("worker-", w)
		group.Go(func() error {
			for round := range rounds {
				session, err := b.store.CreateSession(ctx, owner, 200*time.Millisecond)
				if err != nil {
					return err
				}
				keys := make([]string, 16)
				for i := range keys {
					keys[i] = fmt.Sprint("k", (i*7+round*(w+3))%24)
				}
				slices.Sort(keys)
				keys = slices.Compact(keys)
				results, err := b.store.AcquireBatch(ctx, acquireParams(owner, session.ID, keys...))
				if _, blocked := errors.AsType[*lockstore.BlockedError](err); blocked {
					continue // by a reaper, for longer than a batch waits for its sessions
				}
				if err != nil {
					return err
				}
				var refs []lockstore.GrantRef
				for _, r := range results {
					if r.Err == nil {
						grants.Add(1)
						refs = append(refs, lockstore.GrantRef{Key: r.Grant.Key, Token: r.Grant.Token})
					}
				}
				if len(refs) == 0 || round%3 == 0 {
					continue // left for the reaper
				}
				if _, err := b.store.ReleaseBatch(ctx, refs); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for range rounds {
			if _, err := b.store.ReapSessions(ctx, 100); err != nil {
				return err
			}
			_, err := b.store.RevokeMany(ctx, lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "k1"}, Operator: "erin", Reason: "storm", Expect: 1})
			if _, moved := errors.AsType[*lockstore.CountMovedError](err); err != nil && !moved {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var journalled int64
	if err := b.super.QueryRow(t.Context(), `SELECT count(*) FROM lock_grant`).Scan(&journalled); err != nil {
		t.Fatal(err)
	}
	if journalled != grants.Load() || journalled == 0 {
		t.Errorf("the callers were told of %d grants, the journal knows %d", grants.Load(), journalled)
	}
}

// heartbeats counts those that a wait sends, by session and length.
type heartbeats struct {
	lockstore.Store
	seen map[beat]int
}

type beat struct {
	session lockstore.SessionID
	ttl     time.Duration
}

func (h *heartbeats) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	if h.seen == nil {
		h.seen = map[beat]int{}
	}
	h.seen[beat{id, ttl}]++
	return h.Store.Heartbeat(ctx, id, ttl)
}

func (h *heartbeats) of(id lockstore.SessionID, ttl time.Duration) int { return h.seen[beat{id, ttl}] }

// A wait ends when the key is released, burns no token while it looks, keeps its
// session alive, and gives up in time.
//
// Clauses: K-2.8
// Mutation: acquire at every look instead of showing first.
func TestWait(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	held := b.acquire(t, "k", "alice", alice, time.Hour)
	// The session outlives the test; the wait takes it for one that does not.
	const sessionTTL, longest = 300 * time.Millisecond, 3 * time.Second
	beats := &heartbeats{Store: b.store}
	params := lockstore.WaitParams{
		AcquireParams: lockstore.AcquireParams{Key: "k", Owner: "bob", Session: b.session(t, "bob"), TTL: time.Minute},
		Max:           longest, SessionTTL: sessionTTL,
	}
	_, err := lockstore.Wait(t.Context(), beats, params)
	timeout, ok := errors.AsType[*lockstore.WaitTimeoutError](err)
	if !ok || timeout.Waited < longest {
		t.Fatalf("a wait that ran out: %v", err)
	}
	if holder, ok := errors.AsType[*lockstore.HeldError](err); !ok || holder.Owner != "alice" {
		t.Errorf("the timeout names %+v, want alice", holder)
	}
	if beats.of(params.Session, sessionTTL) == 0 {
		t.Errorf("heartbeats of %d others, and none of the waiter's session", len(beats.seen))
	}
	var drawn lockstore.Token
	if err := b.super.QueryRow(t.Context(), `SELECT last_value FROM fencing_token_seq`).Scan(&drawn); err != nil {
		t.Fatal(err)
	}
	if drawn > held.Token+1 {
		t.Errorf("waiting drew %d tokens, want 1 for the first try", drawn-held.Token)
	}

	waiting := make(chan struct{})
	params.Max = time.Minute
	params.Waiting = func(h *lockstore.HeldError) {
		if h.Owner == "alice" {
			close(waiting)
		}
	}
	var grant lockstore.Grant
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() (err error) { grant, err = lockstore.Wait(ctx, b.store, params); return err })
	<-waiting
	if _, err := b.store.Release(t.Context(), "k", held.Token); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil || grant.Owner != "bob" || grant.Token <= held.Token {
		t.Errorf("after the release: %+v, %v", grant, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the caller")
	params.Owner, params.Session = "carol", b.session(t, "carol")
	params.Waiting = func(*lockstore.HeldError) { cancel(stopped) }
	if _, err := lockstore.Wait(ctx, b.store, params); !errors.Is(err, stopped) {
		t.Errorf("a wait that was stopped: %v, want the cause", err)
	}
}

// A watch tells what stands, then each change once.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	grant := b.acquire(t, "k", "alice", alice, time.Hour)
	var seen []lockstore.ChangeKind
	enough := errors.New("enough")
	err := lockstore.Watch(t.Context(), b.store, lockstore.Filter{}, time.Millisecond, func(c lockstore.Change) error {
		seen = append(seen, c.Kind)
		switch len(seen) {
		case 1:
			if _, err := b.store.Renew(t.Context(), "k", grant.Token, 2*time.Hour); err != nil {
				return err
			}
		case 2:
			grant = b.acquire(t, "k", "alice", alice, 3*time.Hour)
		case 3:
			if _, err := b.store.Release(t.Context(), "k", grant.Token); err != nil {
				return err
			}
		case 4:
			return enough
		}
		return nil
	})
	want := []lockstore.ChangeKind{lockstore.ChangeHeld, lockstore.ChangeRenewed, lockstore.ChangeHeld, lockstore.ChangeGone}
	if !errors.Is(err, enough) || !slices.Equal(seen, want) {
		t.Errorf("saw %v, %v, want %v", seen, err, want)
	}
}
