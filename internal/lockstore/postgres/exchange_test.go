package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// told is what one caller was told, in words.
func told(grant lockstore.Grant, err error) string {
	_, held := errors.AsType[*lockstore.HeldError](err)
	_, blocked := errors.AsType[*lockstore.BlockedError](err)
	_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case err == nil && grant.Token > 0:
		return "granted"
	case held:
		return "held"
	case blocked:
		return "blocked"
	case closed:
		return "closed"
	case errors.Is(err, lockstore.ErrSessionLost):
		return "session lost"
	}
	return fmt.Sprint(err)
}

// An exchange says to each caller what the single verbs, called one after the
// other, would have said: released before acquired, each key by itself. Random
// exchanges of one database and the same calls one by one on another leave the same
// behind.
//
// Clauses: K-1.3, K-2.4, K-2.6, K-2.7
// Mutation: acquire before releasing in queueSets, or take excluded rows' owner for
// the holder's in acquire_many.sql.
func TestExchangeIsEquivalentToSingleCalls(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		other := setup(t, 16)
		random := rand.New(rand.NewPCG(seed, 1))
		var sessions, others []lockstore.SessionID
		for i := range 4 {
			sessions, others = append(sessions, b.session(t, fmt.Sprint("o", i))), append(others, other.session(t, fmt.Sprint("o", i)))
		}
		// Every fourth round meets a key that a transaction blocks and is taken out, every
		// fourth one that the server refuses, so that the statements for each are sent.
		b.exec(t, `ALTER TABLE lock_entry ADD CHECK (lock_key <> 'refused')`)
		tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
		if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('blocked', 'o0', $1, 1, now(), now() + interval '1 hour')`, string(sessions[0])); err != nil {
			t.Fatal(err)
		}
		// last is the last grant of a key on each side: what a release presents.
		last, lastOther := map[string]lockstore.Token{}, map[string]lockstore.Token{}
		for round := range 60 {
			x, single := postgres.Exchange{}, postgres.Exchange{}
			for _, key := range random.Perm(12) {
				name, who := fmt.Sprint("k", key), random.IntN(4)
				what := random.IntN(4)
				if token := last[name]; what >= 2 && token > 0 {
					x.Releases = append(x.Releases, lockstore.GrantRef{Key: name, Token: token})
					single.Releases = append(single.Releases, lockstore.GrantRef{Key: name, Token: lastOther[name]})
				}
				if what%2 == 1 {
					params := lockstore.AcquireParams{Key: name, Owner: fmt.Sprint("o", who), Session: sessions[who], TTL: time.Hour}
					x.Acquires = append(x.Acquires, params)
					params.Session = others[who]
					single.Acquires = append(single.Acquires, params)
				}
			}
			if len(x.Releases)+len(x.Acquires) == 0 {
				continue
			}
			runs := 1
			switch round % 4 {
			case 1:
				x.Acquires, runs = append(x.Acquires, acquireParams("o1", sessions[1], "refused")...), 3
			case 3:
				x.Acquires, runs = append(x.Acquires, acquireParams("o1", sessions[1], "blocked")...), 2
			}
			result, err := b.store.Exchange(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if result.Runs != runs {
				t.Errorf("round %d: %d runs, want %d", round, result.Runs, runs)
			}
			for i, ref := range single.Releases {
				want, err := other.store.Release(t.Context(), ref.Key, ref.Token)
				if got := result.Releases[i]; err != nil || got.Err != nil || got.Release.Stale != want.Stale || got.Release.Key != ref.Key || got.Release.Token != x.Releases[i].Token {
					t.Fatalf("round %d, release %s: %+v; alone: %+v, %v", round, ref.Key, got, want, err)
				}
			}
			for i, params := range single.Acquires {
				want, err := other.store.Acquire(t.Context(), params)
				got := result.Acquires[i]
				if told(got.Grant, got.Err) != told(want, err) {
					t.Fatalf("round %d, acquire %s: %+v; alone: %+v, %v", round, params.Key, got, want, err)
				}
				if err == nil {
					if got.Grant.Token <= last[params.Key] || got.Grant.Owner != params.Owner || got.Grant.Session != x.Acquires[i].Session {
						t.Errorf("round %d: %+v after token %s", round, got.Grant, last[params.Key])
					}
					last[params.Key], lastOther[params.Key] = got.Grant.Token, want.Token
				}
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(standing(t, other), standing(t, b)); diff != "" {
			t.Errorf("what stands (-alone +together):\n%s", diff)
		}
	})
}

// standing is who holds what.
func standing(t *testing.T, b bundle) map[string]string {
	t.Helper()
	entries, err := b.store.List(t.Context(), lockstore.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]string{}
	for _, entry := range entries {
		held[entry.Key] = entry.Owner
	}
	return held
}

// Whoever cannot be served is taken out with an answer of its own, and the rest
// is carried out: a blocked acquire and a blocked release, dead sessions in one
// run, a held key with its holder's name.
//
// Clauses: K-2.3, K-2.4, K-2.11
// Mutation: fail the whole exchange on one key's error, or let every dead session
// cost a run.
func TestExchangeTakesOutWhatFails(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		b.acquire(t, "held", "bob", bob, time.Hour)
		stuck, mine := b.acquire(t, "stuck", "alice", alice, time.Hour), b.acquire(t, "mine", "alice", alice, time.Hour)
		tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
		if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('blocked', 'bob', $1, 1, now(), now() + interval '1 hour')`, string(bob)); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT FROM lock_entry WHERE lock_key = 'stuck' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		x := postgres.Exchange{
			Releases: []lockstore.GrantRef{{Key: "stuck", Token: stuck.Token}, {Key: "mine", Token: mine.Token}},
			Acquires: append(acquireParams("bob", bob, "z", "mine"), acquireParams("alice", alice, "blocked", "held", "a")...),
		}
		for i := range 20 {
			x.Acquires = append(x.Acquires, acquireParams("alice", "00000000-0000-4000-8000-000000000000", fmt.Sprint("dead-", i))...)
		}
		result, err := b.store.Exchange(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		want := append([]string{"granted", "granted", "blocked", "held", "granted"}, strings.Split(strings.Repeat("session lost,", 19)+"session lost", ",")...)
		var got []string
		for _, r := range result.Acquires {
			got = append(got, told(r.Grant, r.Err))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the acquires (-want +got):\n%s", diff)
		}
		if result.Runs > 5 {
			t.Errorf("%d runs for a blocked acquire, a blocked release and one lot of dead sessions", result.Runs)
		}
		if holder, ok := errors.AsType[*lockstore.HeldError](result.Acquires[3].Err); !ok || holder.Owner != "bob" || holder.Remaining <= 0 {
			t.Errorf("the holder is not named: %+v", holder)
		}
		if blocker, ok := errors.AsType[*lockstore.BlockedError](result.Releases[0].Err); !ok || len(blocker.PIDs) != 1 {
			t.Errorf("a blocked release: %+v", result.Releases[0])
		}
		if r := result.Releases[1]; r.Err != nil || r.Release.Stale {
			t.Errorf("a release beside it: %+v", r)
		}
		if entry, err := b.store.Show(t.Context(), "mine"); err != nil || entry.Owner != "bob" || entry.Token != result.Acquires[1].Grant.Token {
			t.Errorf("handed over: %+v, %v", entry, err)
		}
	})
}

// While grants are closed releases go on, in the same exchange too.
//
// Clauses: K-2.7, K-7.4
// Mutation: return what classify made of the gate for the whole exchange.
func TestExchangeReleasesWhileGrantsAreClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	mine := b.acquire(t, "mine", "alice", alice, time.Hour)
	b.exec(t, `UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'drill'`)
	result, err := b.store.Exchange(t.Context(), postgres.Exchange{
		Releases: []lockstore.GrantRef{{Key: "mine", Token: mine.Token}}, Acquires: acquireParams("alice", alice, "a", "mine", "z"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Acquires {
		if told(r.Grant, r.Err) != "closed" {
			t.Errorf("an acquire was told %+v", r)
		}
	}
	if r := result.Releases[0]; r.Err != nil || r.Release.Stale || result.Runs != 2 {
		t.Errorf("the release: %+v in %d runs", r, result.Runs)
	}
	if err := b.store.CheckGrants(t.Context()); told(lockstore.Grant{}, err) != "closed" {
		t.Errorf("CheckGrants: %v", err)
	}
	b.exec(t, `UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`)
	if err := b.store.CheckGrants(t.Context()); err != nil {
		t.Errorf("CheckGrants after the thaw: %v", err)
	}
	b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`)
	var unsafe *lockstore.UnsafeError
	if err := b.store.CheckGrants(t.Context()); !errors.As(err, &unsafe) {
		t.Errorf("CheckGrants without the order of tokens: %v", err)
	}
}

// An exchange whose answer is lost is unknown for all that is in it.
//
// Clauses: K-2.9
// Mutation: answer with what was read before the COMMIT.
func TestExchangeWithoutAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	for _, where := range []pgtest.Cut{pgtest.BeforeCommit, pgtest.AfterCommit} {
		cutter := pgtest.NewCutter(t, b.dbs.Lock.Server)
		opts := options(t, b.dbs)
		opts.Config, opts.MaxConns = cutter.Config(opts.Config), 1
		store := open(t, opts)
		if _, err := store.Exchange(t.Context(), postgres.Exchange{Acquires: acquireParams("alice", alice, "warm")}); err != nil {
			t.Fatal(err)
		}
		cutter.Cut(where)
		result, err := store.Exchange(t.Context(), postgres.Exchange{Acquires: acquireParams("alice", alice, "a", "b")})
		if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); !unknown || len(result.Acquires) != 0 {
			t.Errorf("cut at %d: %+v, %v", where, result, err)
		}
	}
}

// Many servers hand the same keys on with exchanges whose leases lapse under them:
// nobody deadlocks, since the keys are taken in one order, and a key's advisory lock
// before its row.
//
// Clauses: K-2.4
// Mutation: leave the sort out of prepare, or lockKeysQuery out of runSet.
func TestExchangesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	// An exchange waits 50 ms at most: the server is to see a deadlock before that.
	b.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 5', current_database()); END $$`)
	store := open(t, options(t, b.dbs))
	var mu sync.Mutex
	last := map[string]lockstore.Token{}
	group, ctx := errgroup.WithContext(t.Context())
	for w := range 6 {
		owner := fmt.Sprint("server-", w)
		session := b.session(t, owner)
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		group.Go(func() error {
			for range 60 {
				x := postgres.Exchange{}
				for _, key := range random.Perm(8) {
					name := fmt.Sprint("k", key)
					mu.Lock()
					token := last[name]
					mu.Unlock()
					if token > 0 && random.IntN(2) == 0 {
						x.Releases = append(x.Releases, lockstore.GrantRef{Key: name, Token: token})
					}
					if random.IntN(2) == 0 {
						x.Acquires = append(x.Acquires, lockstore.AcquireParams{Key: name, Owner: owner, Session: session, TTL: lockstore.MinTTL})
					}
				}
				if len(x.Releases)+len(x.Acquires) == 0 {
					continue
				}
				result, err := store.Exchange(ctx, x)
				if err != nil {
					return err
				}
				mu.Lock()
				for _, r := range result.Acquires {
					if r.Err == nil {
						last[r.Grant.Key] = max(last[r.Grant.Key], r.Grant.Token)
					}
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var deadlocks, grants int64
	pgtest.Eventually(t, "the statistics come in", func(ctx context.Context) (bool, error) {
		err := b.super.QueryRow(ctx, `SELECT deadlocks, (SELECT count(*) FROM lock_grant) FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks, &grants)
		return grants > 100, err
	})
	if deadlocks != 0 {
		t.Errorf("%d deadlocks in %d grants", deadlocks, grants)
	}
}

// A look finds what stands, held and lapsed, in one question, and burns no token;
// sessions are told alive and gone.
//
// Clauses: K-2.3, K-2.8
// Mutation: leave the lapsed ones out, or count a lapsed session as alive.
func TestLook(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	held := b.acquire(t, "held", "alice", alice, time.Hour)
	b.acquire(t, "lapsed", "alice", alice, lockstore.MinTTL)
	b.lapse(t, "lapsed")
	short, err := b.store.CreateSession(t.Context(), "bob", lockstore.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := b.store.Look(t.Context(), []string{"held", "lapsed", "free"})
	if err != nil {
		t.Fatal(err)
	}
	if e := entries["held"]; len(entries) != 2 || e.Token != held.Token || e.Session != alice || e.Expired || e.Remaining <= 0 || !entries["lapsed"].Expired {
		t.Errorf("a look: %+v", entries)
	}
	pgtest.Eventually(t, "a session lapses", func(ctx context.Context) (bool, error) {
		live, err := b.store.LiveSessions(ctx, []lockstore.SessionID{alice, short.ID})
		return live[alice] && !live[short.ID], err
	})
}
