package syncguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A row is what the library writes, in all its columns, and so is the counter.
//
// Clauses: K-10.2
// Mutation: write the key as given, a fence of 14 digits, or begin counters at 1.
func TestRowIsTheLibrarys(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		granted := map[string]lockstore.Token{}
		for _, v := range vectors() {
			grant := b.acquire(t, v.key, time.Minute)
			if granted[v.lock]++; grant.Token != granted[v.lock] {
				t.Errorf("%s: token %s, want %s: each key counts from 1", v.name, grant.Token, granted[v.lock])
			}
			var lockID, fence, userKey, hexKey, debug string
			var acquired, expires, counter int64
			var hashtext int32
			err := b.conn.QueryRow(t.Context(), `SELECT l.lock_id, l.fence, l.user_key, encode(convert_to(l.key, 'UTF8'), 'hex'), l.acquired_at_ms, l.expires_at_ms, c.fence, c.key_debug, hashtext(l.key)
				FROM syncguard_locks l JOIN syncguard_fence_counters c ON c.fence_key = 'fence:' || l.key WHERE l.key = $1`, grant.Key).
				Scan(&lockID, &fence, &userKey, &hexKey, &acquired, &expires, &counter, &debug, &hashtext)
			if err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
			if hexKey != v.lock || userKey != grant.Key || debug != grant.Key || lockID != grant.LockID || fence != fmt.Sprintf("%015d", grant.Token) || counter != int64(grant.Token) {
				t.Errorf("%s: the row is %s %q %s, its counter %d of %q, granted %+v", v.name, hexKey, userKey, fence, counter, debug, grant)
			}
			if hashtext != v.hashtext {
				t.Errorf("%s: hashtext %d, want %d", v.name, hashtext, v.hashtext)
			}
			if expires-acquired != 60_000 || acquired != grant.AcquiredAt.UnixMilli() || expires != grant.ExpiresAt.UnixMilli() {
				t.Errorf("%s: from %d to %d, granted %+v", v.name, acquired, expires, grant)
			}
			entry, err := b.store.Show(t.Context(), v.key)
			if err != nil || entry.KeyHash != v.hash || entry.LockIDHash != syncguard.TelemetryHash(grant.LockID) || strings.Contains(fmt.Sprintf("%+v", entry), grant.LockID) {
				t.Errorf("%s: shown %+v, %v, want the telemetry's hashes and no lock id", v.name, entry, err)
			}
			if _, err := b.store.Release(t.Context(), v.key, grant.Token); err != nil {
				t.Errorf("%s: %v", v.name, err)
			}
		}
	})
}

// counterVectors are what the library does from each value of a counter. Where it
// issues what its own rules forbid, this store refuses.
var counterVectors = []struct {
	counter int64
	fence   string // "" for a refusal
	warned  bool
}{
	{0, "000000000000001", false},
	{89_999_999_999_999, "090000000000000", false},
	{90_000_000_000_000, "090000000000001", true},
	{899_999_999_999_999, "900000000000000", true},
	{900_000_000_000_000, "", false},
	{999_999_999_999_999, "", false}, // the library: 1000000000000000
	{8_999_999_999_999_999, "", false},
	{9_223_372_036_854_775_807, "", false},
	{-6, "", false}, // the library: 0000000000000-5
	{-1, "", false},
}

// Fences end at 900000000000000: it is still issued, with a warning that begins
// above 90000000000000 and shows no key; then the key grants no more, and its counter
// stays as it is. A refused acquire leaves nothing.
//
// Clauses: K-10.2
// Mutation: <= in queries/draw.sql, or drop fence >= 0 of it.
func TestFenceLimits(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		var warnings []string
		opts := options(t, b.db)
		opts.FenceWarning = func(keyHash string, token lockstore.Token) {
			warnings = append(warnings, keyHash+" "+token.String())
		}
		store := open(t, opts)
		for i, v := range counterVectors {
			key := fmt.Sprint("key-", i)
			b.exec(t, `INSERT INTO syncguard_fence_counters (fence_key, fence) VALUES ($1, $2)`, "fence:"+key, v.counter)
			warnings = nil
			grant, err := store.Acquire(t.Context(), wants(key, time.Minute))
			counter := one[int64](t, b, `SELECT fence FROM syncguard_fence_counters WHERE fence_key = $1`, "fence:"+key)
			if v.fence == "" {
				unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
				if !ok || counter != v.counter || !strings.Contains(unsafe.Problem, fmt.Sprint(v.counter)) {
					t.Errorf("from %d: %+v, %v, the counter at %d, want a refusal that names it", v.counter, grant, err, counter)
				}
				if n := one[int](t, b, `SELECT count(*) FROM syncguard_locks WHERE key = $1`, key); n != 0 {
					t.Errorf("from %d: a refused acquire left its row", v.counter)
				}
				continue
			}
			if fence := one[string](t, b, `SELECT fence FROM syncguard_locks WHERE key = $1`, key); err != nil || fence != v.fence || fmt.Sprintf("%015d", grant.Token) != v.fence {
				t.Errorf("from %d: %+v, %v, in the row %s, want %s", v.counter, grant, err, fence, v.fence)
			}
			if warned := len(warnings) == 1 && warnings[0] == syncguard.TelemetryHash(key)+" "+grant.Token.String(); warned != v.warned || len(warnings) > 1 {
				t.Errorf("from %d: warned %q, want a warning: %t", v.counter, warnings, v.warned)
			}
		}
	})
}

// A counter that was set back below the row it would replace, as a restore does it,
// grants nothing; the library goes on without a word.
//
// Clauses: K-1.3, K-10.2
// Mutation: drop the comparison of draw.
func TestCounterBehindItsRow(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for range 3 {
		grant := b.acquire(t, "k", time.Minute)
		if _, err := b.store.Release(t.Context(), "k", grant.Token); err != nil {
			t.Fatal(err)
		}
	}
	standing := b.acquire(t, "k", time.Minute)
	b.ends(t, -time.Hour)
	for _, back := range []string{`UPDATE syncguard_fence_counters SET fence = 3`, `DELETE FROM syncguard_fence_counters`} {
		b.exec(t, back)
		_, err := b.store.Acquire(t.Context(), wants("k", time.Minute))
		unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
		if !ok || unsafe.Clause != "K-1.3" || !strings.Contains(unsafe.Problem, standing.Token.String()) || !strings.Contains(unsafe.Fix, "restore fast-forward") {
			t.Errorf("%s: %v, want a refusal that names token %s and the command", back, err, standing.Token)
		}
	}
	b.exec(t, `INSERT INTO syncguard_fence_counters (fence_key, fence) VALUES ('fence:k', 1000)`)
	if got := b.acquire(t, "k", time.Minute); got.Token != 1001 {
		t.Errorf("granted %s, want 1001", got.Token)
	}
}

// A lease ended 500 ms ago is held in every operation, and one that ended 1,500 ms
// ago in none.
//
// Clauses: K-10.2
// Mutation: a tolerance of zero, or of two seconds.
func TestTolerance(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		grant := b.acquire(t, "k", time.Minute)
		// Half a second is not stretched by a slow machine: the row ends when it is
		// looked at, and the look says by which clock.
		for _, ago := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
			b.ends(t, -ago)
			entry, err := b.store.Show(t.Context(), "k")
			if err != nil || (entry.Remaining > -time.Second) == entry.Expired || (entry.State == lockstore.InTolerance) == entry.Expired {
				t.Errorf("%s ago: shown %+v, %v", ago, entry, err)
			}
		}
		for name, lapsed := range map[string]bool{"within": false, "past": true} {
			b.exec(t, `DELETE FROM syncguard_locks`)
			b.exec(t, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ('k', $1, 0, 0, '000000000000001', 'k')`, grant.LockID)
			s := stopped(t, b, map[bool]int64{false: 500, true: 1500}[lapsed])
			_, acquired := s.Acquire(t.Context(), wants("k", time.Minute))
			_, held := errors.AsType[*lockstore.HeldError](acquired)
			if held == lapsed {
				t.Errorf("%s: acquire: %v", name, acquired)
			}
			if lapsed {
				b.exec(t, `DELETE FROM syncguard_locks`)
				b.exec(t, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ('k', $1, 0, 0, '000000000000001', 'k')`, grant.LockID)
			}
			_, renewed := s.Renew(t.Context(), "k", 1, lockstore.MinTTL)
			if errors.Is(renewed, lockstore.ErrLockLost) != lapsed {
				t.Errorf("%s: renew: %v", name, renewed)
			}
			b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = 0`)
			released, err := s.Release(t.Context(), "k", 1)
			if err != nil || released.Stale != lapsed {
				t.Errorf("%s: release: %+v, %v", name, released, err)
			}
			if rows := one[int](t, b, `SELECT count(*) FROM syncguard_locks`); rows != count(lapsed) {
				t.Errorf("%s: %d rows are left: a row whose lease is over stays", name, rows)
			}
		}
	})
}

// stopped is a store whose clock stands so long after every lease that ends at 0.
func stopped(t *testing.T, b bundle, nowMs int64) *syncguard.Store {
	t.Helper()
	s := open(t, options(t, b.db))
	takeOut(t, s, "clock", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint", fmt.Sprint(nowMs, "::bigint"))
	return s
}

// A grant is counted from when its locks are held, however long that took: neither
// the key's advisory lock, nor its row, nor its counter makes a lease shorter. The
// original's is over when it is granted.
//
// Clauses: K-2.10, K-10.2
// Mutation: now() for clock_timestamp() in queries/clock.sql, or drop the second
// reading of draw.
func TestNoLeaseIsBornExpired(t *testing.T) {
	t.Parallel()
	const row = `SELECT FROM syncguard_locks WHERE key = 'k' FOR UPDATE`
	const advisory = `SELECT pg_advisory_xact_lock(hashtext('k'))`
	for _, c := range []struct {
		name, hold string
		original   bool
	}{
		{"advisory lock", advisory, false},
		{"row", row, false},
		{"counter", `SELECT FROM syncguard_fence_counters WHERE fence_key = 'fence:k' FOR UPDATE`, false},
		{"the original", advisory, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				b.acquire(t, "k", time.Minute)
				b.ends(t, -time.Hour)
				const ttl = lockstore.MinTTL
				acquired, expires, letGo := behind(t, b, c.hold, ttl, c.original)
				switch {
				case c.original && expires > letGo:
					t.Errorf("the original's lease ends at %d, and it was let go on at %d: the race was not played", expires, letGo)
				case !c.original && (acquired < letGo || expires-acquired != ttl.Milliseconds()):
					t.Errorf("granted from %d to %d, when the locks were let go at %d", acquired, expires, letGo)
				}
			})
		})
	}
}

// behind acquires behind another transaction, which keeps what it holds for longer
// than the lease. It returns the lease and when the other let go.
func behind(t *testing.T, b bundle, hold string, ttl time.Duration, original bool) (acquired, expires, letGo int64) {
	t.Helper()
	other := b.db.Conn(t, "t_owner")
	for _, sql := range []string{`BEGIN`, hold} {
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	opts := options(t, b.db)
	opts.LockTimeout = time.Minute
	store, o := open(t, opts), newOriginal(t, b)
	var group errgroup.Group
	group.Go(func() error {
		if original {
			got, err := o.acquire(t.Context(), "k", ttl.Milliseconds())
			acquired, expires = got.granted, got.expires
			return err
		}
		grant, err := store.Acquire(t.Context(), wants("k", ttl))
		acquired, expires = grant.AcquiredAt.UnixMilli(), grant.ExpiresAt.UnixMilli()
		return err
	})
	b.waiting(t, 1)
	from := b.nowMs(t)
	pgtest.Eventually(t, "the lease asked for passes", func(ctx context.Context) (bool, error) {
		err := b.conn.QueryRow(ctx, serverNow).Scan(&letGo)
		return letGo > from+ttl.Milliseconds(), err
	})
	if _, err := other.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return acquired, expires, letGo
}
