package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// rounds is how often each control is played; each must be caught.
const rounds = 20

// control is a guard, what takes it out, and a race that then goes wrong.
type control struct {
	name string
	// setUp is done once; it may take out another guard that covers the same.
	setUp func(t *testing.T, s *stage)
	// off takes the guard out of the database, or mutate out of the store.
	off    func(t *testing.T, b bundle)
	mutate func(t *testing.T, m *mutant)
	// play is one round, on a key of its own.
	play func(t *testing.T, s *stage)
	want error
}

// stage is where a control is played.
type stage struct {
	bundle
	// Two clients of one connection each: real stores, or mutants.
	stores   [2]*mutant
	record   *locktest.Recorder
	key      string
	pause    *pause
	sessions map[string]lockstore.SessionID
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{bundle: setup(t, 16), sessions: make(map[string]lockstore.SessionID)}
	opts := options(t, s.dbs)
	opts.MaxConns, opts.LockTimeout = 1, 30*time.Second
	for i := range s.stores {
		s.stores[i] = &mutant{Store: open(t, opts), db: s.dbs.Lock.Pool(t, "t_lockapp")}
	}
	for _, owner := range []string{"slow", "fast"} {
		s.sessions[owner] = s.session(t, owner)
	}
	return s
}

// slow and fast are the two clients of a race.
func (s *stage) slow() *locktest.Actor {
	return s.record.Actor(s.stores[0], "slow", s.sessions["slow"])
}

func (s *stage) fast() *locktest.Actor {
	return s.record.Actor(s.stores[1], "fast", s.sessions["fast"])
}

func (s *stage) acquire(t *testing.T, a *locktest.Actor, ttl time.Duration) lockstore.GrantRef {
	t.Helper()
	grant, _, err := a.Acquire(t.Context(), s.key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func (s *stage) renew(t *testing.T, a *locktest.Actor, grant lockstore.GrantRef, ttl time.Duration) {
	t.Helper()
	if _, err := a.Renew(t.Context(), grant, ttl); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) release(t *testing.T, a *locktest.Actor, grant lockstore.GrantRef) {
	t.Helper()
	if err := a.Release(t.Context(), grant); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) reap(t *testing.T) {
	t.Helper()
	if _, err := s.store.ReapSessions(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
}

// rounds plays the control and returns in how many rounds the checker refused
// what the clients were told, for the reason that is meant.
func (s *stage) rounds(t *testing.T, c control, name string) (caught int) {
	t.Helper()
	for i := range rounds {
		s.record, s.key = locktest.NewRecorder(), fmt.Sprintf("%s-%d", name, i)
		c.play(t, s)
		history := s.record.History()
		verdict := locktest.Check(history, rules())
		switch {
		case errors.Is(verdict.Err, c.want):
			caught++
		case verdict.Err != nil:
			t.Errorf("round %d: %v, want %v: %+v", i, verdict.Err, c.want, history)
		}
	}
	return caught
}

func disable(table, trigger string) func(*testing.T, bundle) {
	return func(t *testing.T, b bundle) {
		t.Helper()
		b.exec(t, fmt.Sprintf(`ALTER TABLE %s DISABLE TRIGGER %s`, table, trigger))
	}
}

// Each guard matters, and the checker sees it: with the guard the race is
// explained in every round, without it in none. The races are played in one
// order, by locks of the test's own, so that none is a matter of luck.
//
// Clauses: K-1.2, K-1.3, K-1.5, K-2.3, K-2.6, K-2.7, K-2.10, K-3.1
// Mutation: each row takes its guard out by itself; accept everything in
// locktest's model and no row is caught.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, c := range controls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if c.setUp != nil {
				c.setUp(t, s)
			}
			if caught := s.rounds(t, c, "with"); caught != 0 {
				t.Errorf("with the guard %d of %d rounds are refused", caught, rounds)
			}
			if c.off != nil {
				c.off(t, s.bundle)
			}
			if c.mutate != nil {
				c.mutate(t, s.stores[0])
				c.mutate(t, s.stores[1])
			}
			if caught := s.rounds(t, c, "without"); caught != rounds {
				t.Errorf("without the guard %d of %d rounds are caught", caught, rounds)
			}
		})
	}
}

func controls() []control {
	illegal := locktest.ErrNotLinearizable
	return []control{
		{
			name: "order trigger: a number drawn before the key is owned",
			setUp: func(t *testing.T, s *stage) {
				s.pause = pauseAt(t, s.bundle, "aa_pause", "BEFORE INSERT", "NEW.owner_id = 'slow'")
			},
			off:  disable("lock_entry", "lock_entry_order"),
			play: playDrawnEarly, want: illegal,
		},
		{
			name:  "nextval in DO UPDATE, the trigger that redraws being off",
			setUp: func(t *testing.T, s *stage) { disable("lock_entry", "lock_entry_guard")(t, s.bundle) },
			mutate: func(t *testing.T, m *mutant) {
				m.acquire = less(t, "acquire", "fencing_token = nextval('fencing_token_seq'),")
			},
			play: func(t *testing.T, s *stage) {
				slow := s.slow()
				s.acquire(t, slow, time.Minute)
				s.acquire(t, slow, time.Minute)
			},
			want: locktest.ErrTokenRepeated,
		},
		{
			name:   "token in the release predicate",
			mutate: func(t *testing.T, m *mutant) { m.release = less(t, "release", "AND fencing_token = $2") },
			play: func(t *testing.T, s *stage) {
				slow := s.slow()
				old := s.acquire(t, slow, time.Minute)
				s.acquire(t, slow, time.Minute)
				s.release(t, slow, old)
			},
			want: illegal,
		},
		{
			name:   "expires_at > now() in renew",
			mutate: func(t *testing.T, m *mutant) { m.renew = less(t, "renew", "AND expires_at    > now()") },
			play: func(t *testing.T, s *stage) {
				slow := s.slow()
				grant := s.acquire(t, slow, lockstore.MinTTL)
				s.lapse(t, s.key)
				s.renew(t, slow, grant, time.Minute)
			},
			want: illegal,
		},
		{name: "live session", off: dropSessionCheck, play: playDeadSession, want: illegal},
		{
			name: "a lease is never shortened",
			off:  disable("lock_entry", "lock_entry_guard"),
			play: func(t *testing.T, s *stage) {
				slow := s.slow()
				s.renew(t, slow, s.acquire(t, slow, time.Minute), time.Second)
			},
			want: illegal,
		},
		{
			name: "a session is never shortened", off: disable("lock_session", "lock_session_guard"), play: playShortHeartbeat, want: illegal,
		},
		{
			name: "FOR UPDATE in revoke",
			setUp: func(t *testing.T, s *stage) {
				s.pause = pauseAt(t, s.bundle, "zz_pause", "AFTER UPDATE", "NEW.owner_id = 'slow'")
			},
			mutate: func(t *testing.T, m *mutant) { m.revoke = less(t, "revoke", "FOR UPDATE") },
			play:   playRevokeDuringReEntry, want: illegal,
		},
		{
			name: "CACHE 1",
			off:  func(t *testing.T, b bundle) { b.exec(t, `ALTER SEQUENCE fencing_token_seq CACHE 20`) },
			play: func(t *testing.T, s *stage) {
				// Five in turn: neither's block can run out at each change.
				slow, fast := s.slow(), s.fast()
				for _, client := range []*locktest.Actor{slow, fast, slow, fast, slow} {
					s.release(t, client, s.acquire(t, client, time.Minute))
				}
			},
			want: locktest.ErrTokenOrder,
		},
	}
}

// playDrawnEarly: slow has drawn its number and does not own the key yet, when
// fast gets it and gives it back; then slow gets it.
func playDrawnEarly(t *testing.T, s *stage) {
	slow, fast := s.slow(), s.fast()
	s.pause.shut(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		_, _, err := slow.Acquire(ctx, s.key, time.Minute)
		return err
	})
	s.pause.waiting(t, 1)
	s.release(t, fast, s.acquire(t, fast, time.Minute))
	s.pause.open(t)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// playDeadSession: a grant under a session that has lapsed goes with it at the
// next reaping, and fast gets the key within the lease.
func playDeadSession(t *testing.T, s *stage) {
	dead := s.session(t, "slow")
	s.endSession(t, dead)
	if _, _, err := s.record.Actor(s.stores[0], "slow", dead).Acquire(t.Context(), s.key, time.Minute); err != nil && !errors.Is(err, lockstore.ErrSessionLost) {
		t.Fatal(err)
	}
	s.reap(t)
	s.acquire(t, s.fast(), time.Minute)
}

// dropSessionCheck takes step (2) out of the trigger that orders tokens.
func dropSessionCheck(t *testing.T, b bundle) {
	t.Helper()
	var function string
	if err := b.super.QueryRow(t.Context(), `SELECT pg_get_functiondef('lock_entry_order()'::regprocedure)`).Scan(&function); err != nil {
		t.Fatal(err)
	}
	const check = `AND s.expires_at > now() FOR KEY SHARE`
	if strings.Count(function, check) != 1 {
		t.Fatalf("lock_entry_order has no %q", check)
	}
	b.exec(t, strings.Replace(function, check, `FOR KEY SHARE`, 1))
}

// playShortHeartbeat: slow's session is told to live shorter than its lease.
func playShortHeartbeat(t *testing.T, s *stage) {
	session := s.session(t, "slow")
	s.acquire(t, s.record.Actor(s.stores[0], "slow", session), time.Minute)
	if _, err := s.store.Heartbeat(t.Context(), session, lockstore.MinTTL); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "the session is as long as before, or over", func(ctx context.Context) (bool, error) {
		now, err := s.store.Session(ctx, session)
		return now.Remaining > time.Minute || now.Remaining <= 0, err
	})
	s.reap(t)
	s.acquire(t, s.fast(), time.Minute)
}

// playRevokeDuringReEntry: an operator revokes the token seen while the holder is
// about to commit a newer one; the answer must name the newer.
func playRevokeDuringReEntry(t *testing.T, s *stage) {
	slow, operator := s.slow(), s.fast()
	seen := s.acquire(t, slow, time.Minute)
	s.pause.shut(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		_, _, err := slow.Acquire(ctx, s.key, time.Minute)
		return err
	})
	s.pause.waiting(t, 1)
	group.Go(func() error { return operator.Revoke(ctx, seen) })
	s.pause.waiting(t, 2)
	s.pause.open(t)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

var _ lockstore.Store = (*mutant)(nil)
