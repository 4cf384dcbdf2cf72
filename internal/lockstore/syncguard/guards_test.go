package syncguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// side is one of two clients in a race for one key: the original, or this store,
// perhaps without one of its guards. Each tells whether its caller was told that it
// holds the key.
type side interface {
	extend(ctx context.Context, standing lockstore.Grant) (bool, error)
	acquire(ctx context.Context, key string) (bool, error)
}

// lease is what both ask for.
const lease = time.Hour

type originalSide struct{ *original }

func (o originalSide) extend(ctx context.Context, standing lockstore.Grant) (bool, error) {
	got, err := o.original.extend(ctx, standing.LockID, lease.Milliseconds())
	return got.ok, err
}

func (o originalSide) acquire(ctx context.Context, key string) (bool, error) {
	got, err := o.original.acquire(ctx, key, lease.Milliseconds())
	return got.ok, err
}

type storeSide struct{ *syncguard.Store }

func (s storeSide) extend(ctx context.Context, standing lockstore.Grant) (bool, error) {
	_, err := s.Renew(ctx, standing.Key, standing.Token, lease)
	if errors.Is(err, lockstore.ErrLockLost) {
		return false, nil
	}
	return err == nil, err
}

func (s storeSide) acquire(ctx context.Context, key string) (bool, error) {
	_, err := s.Acquire(ctx, wants(key, lease))
	if _, ok := errors.AsType[*lockstore.HeldError](err); ok {
		return false, nil
	}
	return err == nil, err
}

// The sides, which begin so much later than those whose clock is the server's: time
// passes without anybody waiting for it.
func theOriginal(t *testing.T, b bundle, later time.Duration) side {
	t.Helper()
	return originalSide{newOriginal(t, b).begins(later)}
}

func theStore(t *testing.T, b bundle, later time.Duration) side {
	t.Helper()
	return storeSide{laterStore(t, b, later)}
}

func withoutAdvisoryLock(t *testing.T, b bundle, later time.Duration) side {
	t.Helper()
	s := laterStore(t, b, later)
	takeOut(t, s, "lock_key", "pg_advisory_xact_lock(hashtext($1))", "hashtext($1)")
	return storeSide{s}
}

func withoutRowLock(t *testing.T, b bundle, later time.Duration) side {
	t.Helper()
	s := laterStore(t, b, later)
	takeOut(t, s, "standing", "FOR UPDATE", "")
	return storeSide{s}
}

func laterStore(t *testing.T, b bundle, later time.Duration) *syncguard.Store {
	t.Helper()
	opts := options(t, b.db)
	opts.LockTimeout = time.Minute
	s := open(t, opts)
	takeOut(t, s, "clock", "clock_timestamp()", fmt.Sprintf("clock_timestamp() + interval '%d milliseconds'", later.Milliseconds()))
	return s
}

// takeOut takes a guard out of one store's statement.
func takeOut(t *testing.T, store *syncguard.Store, query, part, instead string) {
	t.Helper()
	if !store.Less(query, part, instead) {
		t.Fatalf("the statement %s has %q not once", query, part)
	}
}

// An extend begins while the lease stands, and is stopped when it has changed the
// row and not committed; then, when the lease that others see is over, another
// acquires. With both as the original does it, both are told that they hold the
// key, every time. With either of them this store, one is; and which guard that is
// shows when it is taken out.
//
// Clauses: K-10.2
// Mutation: take pg_advisory_xact_lock out of Renew, or FOR UPDATE out of
// queries/standing.sql; the test does both itself.
func TestExtendAgainstAcquire(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name            string
		extend, acquire func(t *testing.T, b bundle, later time.Duration) side
		holders         int
	}{
		{"original, original", theOriginal, theOriginal, 2},
		{"store, original", theStore, theOriginal, 1},
		{"original, store", theOriginal, theStore, 1},
		{"store, store", theStore, theStore, 1},
		{"store without the advisory lock, original", withoutAdvisoryLock, theOriginal, 2},
		{"original, store without the row lock", theOriginal, withoutRowLock, 2},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				extended, acquired := playExtendFirst(t, b, p.extend(t, b, 0), p.acquire(t, b, 10*time.Minute))
				if !extended {
					t.Error("the extend of a lease that stood was refused")
				}
				if holders := count(extended, acquired); holders != p.holders {
					t.Errorf("%d are told that they hold the key, want %d", holders, p.holders)
				}
			})
		})
	}
}

// playExtendFirst stops the extend after its UPDATE, which has the row then, until
// whoever acquires, nine minutes after the lease has ended, waits for it.
func playExtendFirst(t *testing.T, b bundle, extender, acquirer side) (extended, acquired bool) {
	t.Helper()
	standing := b.acquire(t, "k", time.Minute)
	b.exec(t, `CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(42, 42); RETURN NEW; END $$`)
	b.exec(t, `CREATE TRIGGER pause AFTER UPDATE ON syncguard_locks FOR EACH ROW WHEN (NEW.lock_id = OLD.lock_id) EXECUTE FUNCTION pause()`)
	gate := shut(t, b)
	var group errgroup.Group
	group.Go(func() (err error) { extended, err = extender.extend(t.Context(), standing); return err })
	b.waiting(t, 1)
	group.Go(func() (err error) { acquired, err = acquirer.acquire(t.Context(), "k"); return err })
	b.waiting(t, 2)
	gate.open(t)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return extended, acquired
}

// gate is an advisory lock of the test's own.
type gate struct{ conn *pgx.Conn }

func shut(t *testing.T, b bundle) gate {
	t.Helper()
	g := gate{b.db.Conn(t, "t_owner")}
	if _, err := g.conn.Exec(t.Context(), `SELECT pg_advisory_lock(42, 42)`); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g gate) open(t *testing.T) {
	t.Helper()
	if _, err := g.conn.Exec(t.Context(), `SELECT pg_advisory_unlock(42, 42)`); err != nil {
		t.Fatal(err)
	}
}

func count(told ...bool) (holders int) {
	for _, holds := range told {
		if holds {
			holders++
		}
	}
	return holders
}

// The other order: whoever acquires has seen that the lease is over, when an extend
// comes to the row that began before it was. The original's extend succeeds, by the
// time at which it began, and its acquire overwrites it; this store's extend waits for
// the acquire and finds its grant gone.
//
// Clauses: K-10.2
// Mutation: take pg_advisory_xact_lock out of Renew: nobody waits.
func TestAcquireAgainstExtend(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"original": false, "store": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				standing := b.acquire(t, "k", time.Minute)
				acquirer := newOriginal(t, b).begins(10 * time.Minute)
				looked, goOn := make(chan struct{}), make(chan struct{})
				acquirer.at = func(at step) {
					if at == hasLooked {
						close(looked)
						<-goOn
					}
				}
				extender := theOriginal(t, b, 0)
				if waits {
					extender = theStore(t, b, 0)
				}
				var extended, acquired bool
				var acquiring, extending errgroup.Group
				acquiring.Go(func() (err error) { acquired, err = originalSide{acquirer}.acquire(t.Context(), "k"); return err })
				<-looked
				extending.Go(func() (err error) { extended, err = extender.extend(t.Context(), standing); return err })
				if waits {
					b.waiting(t, 1)
				} else if err := extending.Wait(); err != nil {
					t.Fatal(err)
				}
				close(goOn)
				if err := errors.Join(acquiring.Wait(), extending.Wait()); err != nil || !acquired {
					t.Fatalf("acquired: %t, %v", acquired, err)
				}
				if extended == waits {
					t.Errorf("the extend of %s succeeded: %t", name, extended)
				}
			})
		})
	}
}

// A lock that either of the two holds keeps the other out, for its lease and a
// second, in every operation; and each can renew and release what it has.
//
// Clauses: K-10.2
// Mutation: a tolerance of zero; hash the key for the row or the counter.
func TestEachHonoursTheOther(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		// At the end of the lease, by clocks that stand half a second after it.
		o, within, storeWithin := newOriginal(t, b), newOriginal(t, b), stopped(t, b, 500)
		within.clock = "500"
		for i, key := range []string{"payment:42", "cafe\u0301", "lock:\U0001f512", "  pad "} {
			mine := b.acquire(t, key, time.Minute)
			if got, err := o.acquire(t.Context(), key, 60_000); err != nil || got.ok {
				t.Errorf("key %d: the original acquires over this store: %+v, %v", i, got, err)
			}
			b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = 0`)
			if owns, err := within.owns(t.Context(), mine.LockID); err != nil || !owns {
				t.Errorf("key %d: the original does not see this store's grant within the tolerance: %v", i, err)
			}
			if got, err := within.extend(t.Context(), mine.LockID, 60_000); err != nil || !got.ok {
				t.Errorf("key %d: the original extends this store's grant: %+v, %v", i, got, err)
			}
			if got, err := within.release(t.Context(), mine.LockID); err != nil || !got.ok {
				t.Errorf("key %d: the original releases this store's grant: %+v, %v", i, got, err)
			}
			theirs, err := o.acquire(t.Context(), key, 60_000)
			if err != nil || !theirs.ok || theirs.fence != fmt.Sprintf("%015d", mine.Token+1) {
				t.Fatalf("key %d: after %s the original gets %+v, %v", i, mine.Token, theirs, err)
			}
			_, err = b.store.Acquire(t.Context(), wants(key, time.Minute))
			if heldErr, ok := errors.AsType[*lockstore.HeldError](err); !ok || heldErr.Token != mine.Token+1 {
				t.Errorf("key %d: this store acquires over the original: %v (%+v)", i, err, heldErr)
			}
			b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = 0`)
			if renewed, err := storeWithin.Renew(t.Context(), key, mine.Token+1, time.Minute); err != nil || renewed.Token != mine.Token+1 {
				t.Errorf("key %d: this store renews the original's grant: %+v, %v", i, renewed, err)
			}
			if released, err := storeWithin.Release(t.Context(), key, mine.Token+1); err != nil || released.Stale {
				t.Errorf("key %d: this store releases the original's grant: %+v, %v", i, released, err)
			}
			if owns, err := o.owns(t.Context(), theirs.lockID); err != nil || owns {
				t.Errorf("key %d: the original holds what was released: %v", i, err)
			}
		}
		if n := one[int](t, b, `SELECT count(*) FROM syncguard_fence_counters WHERE fence = 2 AND fence_key = 'fence:' || key_debug`); n != 4 {
			t.Errorf("%d counters stand at 2 under their key, want 4", n)
		}
	})
}
