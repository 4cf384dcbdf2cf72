package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

const clients = 16

// hammer is what sixteen clients do to a lockdb while it is fast-forwarded: single
// acquires, batches, a release and an acquire in one transaction, revokes that draw
// a fence, and the reaper's ending of sessions.
type hammer struct {
	store, operator *postgres.Store
	db              func() *pgx.Conn
	over            atomic.Bool
	grants, refused atomic.Int64
	deadlocks       atomic.Int64
	mu              sync.Mutex
	tokens          map[lockstore.Token]int
}

func (h *hammer) got(token lockstore.Token) {
	h.grants.Add(1)
	h.mu.Lock()
	h.tokens[token]++
	h.mu.Unlock()
}

// heard lets pass what a fast-forward means for a client: grants are closed, its
// session and lock are voided, or it waited too long behind the barrier.
func (h *hammer) heard(err error) error {
	held, blocked := (*lockstore.HeldError)(nil), (*lockstore.BlockedError)(nil)
	var pgErr *pgconn.PgError
	switch {
	case err == nil, errors.As(err, &held), errors.As(err, &blocked), errors.Is(err, lockstore.ErrSessionLost), errors.Is(err, lockstore.ErrLockLost):
		return nil
	case isClosed(err):
		h.refused.Add(1)
		return nil
	case errors.As(err, &pgErr) && pgErr.Code == pgerrcode.DeadlockDetected:
		h.deadlocks.Add(1)
		return nil
	case errors.As(err, &pgErr) && (pgErr.Code == pgerrcode.ForeignKeyViolation || pgErr.Code == pgerrcode.LockNotAvailable || pgErr.ConstraintName == "lock_gate"):
		return nil
	}
	return err
}

func (h *hammer) client(ctx context.Context, n int) error {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	owner := fmt.Sprint("client-", n)
	conn := h.db()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for !h.over.Load() {
		session, err := h.store.CreateSession(ctx, owner, time.Minute)
		if err != nil {
			return err
		}
		for range 8 {
			key := func() string { return fmt.Sprint("key-", random.IntN(40)) }
			ask := func() lockstore.AcquireParams {
				return lockstore.AcquireParams{Key: key(), Owner: owner, Session: session.ID, TTL: 100 * time.Millisecond}
			}
			switch random.IntN(4) {
			case 0:
				err = h.single(ctx, ask())
			case 1:
				err = h.batch(ctx, ask)
			case 2:
				// Two keys, in their order, as everybody who takes two (K-2.4). Leases of 100 ms
				// lapse meanwhile, and then two that swap theirs deadlock by themselves; so do
				// one that gives a lapsed lock up and takes it again, which has the row before
				// the key, and one that takes it over, which has the key before the row.
				from, to := key(), key()
				for to == from {
					to = key()
				}
				err = h.exchange(ctx, conn, string(session.ID), owner, min(from, to), max(from, to))
			default:
				err = h.revoke(ctx, ask())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hammer) single(ctx context.Context, ask lockstore.AcquireParams) error {
	grant, err := h.store.Acquire(ctx, ask)
	if err == nil {
		h.got(grant.Token)
	}
	return h.heard(err)
}

func (h *hammer) batch(ctx context.Context, ask func() lockstore.AcquireParams) error {
	asked := map[string]bool{}
	var params []lockstore.AcquireParams
	for range 5 {
		if p := ask(); !asked[p.Key] {
			asked[p.Key] = true
			params = append(params, p)
		}
	}
	results, err := h.store.AcquireBatch(ctx, params)
	for _, r := range results {
		if r.Err == nil {
			h.got(r.Grant.Token)
		} else if err := h.heard(r.Err); err != nil {
			return err
		}
	}
	return h.heard(err)
}

const acquireSQL = `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
VALUES ($1, $2, $3, nextval('fencing_token_seq'), now(), now() + interval '100 ms')
ON CONFLICT (lock_key) DO UPDATE SET owner_id = EXCLUDED.owner_id, session_id = EXCLUDED.session_id, fencing_token = nextval('fencing_token_seq'), acquired_at = now(), expires_at = now() + interval '100 ms'
 WHERE lock_entry.expires_at <= now() OR (lock_entry.owner_id = EXCLUDED.owner_id AND lock_entry.session_id = EXCLUDED.session_id)
RETURNING fencing_token`

// exchange gives one lock up and takes another in one transaction: it holds a row
// before its first number, which is what deadlocks without a gate.
func (h *hammer) exchange(ctx context.Context, conn *pgx.Conn, session, owner, from, to string) error {
	var token lockstore.Token
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '5s'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT FROM lock_session WHERE session_id = $1 FOR KEY SHARE`, session); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM lock_entry WHERE lock_key = $1 AND session_id = $2`, from, session); err != nil {
			return err
		}
		return tx.QueryRow(ctx, acquireSQL, to, owner, session).Scan(&token)
	})
	if err == nil {
		h.got(token)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return h.heard(err)
}

func (h *hammer) revoke(ctx context.Context, ask lockstore.AcquireParams) error {
	grant, err := h.store.Acquire(ctx, ask)
	if err != nil {
		return h.heard(err)
	}
	h.got(grant.Token)
	outcome, err := h.operator.Revoke(ctx, lockstore.RevokeParams{
		Key: grant.Key, Token: grant.Token, Operator: "erin", Reason: "hammer", FenceAccounts: []string{"10000000-0000-4000-8000-000000000001"},
	})
	if err == nil && outcome.Fence != 0 {
		h.got(outcome.Fence)
	}
	return h.heard(err)
}

// skipped is a range that no grant may lie in.
type skipped struct{ from, to lockstore.Token }

// Sixteen clients grant, exchange, revoke and end sessions while lockdb is
// fast-forwarded every fifth of a second: nobody deadlocks, no token is issued
// twice, and none lies in a range that was skipped.
//
// Clauses: K-7.4, K-1.3
// Mutation: leave closeGate out of (*run).steps, as TestHammerWithoutTheGate does; or setval instead of RESTART.
func TestHammer(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		var ranges []skipped
		h := w.hammer(t, func(s restore.Stores) error {
			result, err := restore.FastForward(t.Context(), s, options())
			if err != nil {
				return err
			}
			if result.Outcome == restore.Advanced && result.Moved {
				ranges = append(ranges, skipped{result.From, result.To})
			}
			return nil
		}, func() bool { return len(ranges) >= 8 })
		if n := h.deadlocks.Load() + found(t, w); n != 0 {
			t.Errorf("%d deadlocks", n)
		}
		for token, times := range h.tokens {
			if times != 1 {
				t.Errorf("token %d was issued %d times", token, times)
			}
			for _, r := range ranges {
				if token > r.from && token <= r.to {
					t.Errorf("token %d lies in the skipped range %d to %d", token, r.from, r.to)
				}
			}
		}
		t.Logf("%d fast-forwards, %d grants, %d refused", len(ranges), h.grants.Load(), h.refused.Load())
		if h.grants.Load() < 200 || h.refused.Load() == 0 {
			t.Error("too little happened")
		}
	})
}

// The same with the gate and its barrier left out: the transactions that hold a row
// and come to want a number deadlock with it.
//
// Clauses: K-7.4
// Mutation: none; it shows what TestHammer would miss.
func TestHammerWithoutTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	exec(t, w.lock, `ALTER DATABASE `+pgx.Identifier{w.dbs.Lock.Name}.Sanitize()+` SET deadlock_timeout = '50ms'`)
	tries, counted := 0, 0
	h := w.hammer(t, func(s restore.Stores) error {
		tries++
		_, err := s.Lock.Advance(t.Context(), lockstore.AdvanceParams{
			Operator: "erin", Reason: "no gate", Limit: lockstore.MaxToken,
			Decide: func(view lockstore.AdvanceView) (lockstore.Decision, error) {
				return lockstore.Decision{Target: view.Source.Last + 1000}, nil
			},
		})
		if err != nil {
			t.Logf("advance: %v", err)
		}
		return w.lock.QueryRow(t.Context(), countDeadlocks).Scan(&counted)
	}, func() bool { return tries >= 10 && counted > 0 || tries >= 100 })
	if n := h.deadlocks.Load() + found(t, w); n == 0 {
		t.Error("no deadlock was found: this test no longer shows what the gate is for")
	}
}

// hammer runs the clients, and forward every fifth of a second until it is enough.
func (w *world) hammer(t *testing.T, forward func(restore.Stores) error, enough func() bool) *hammer {
	t.Helper()
	operator, err := postgres.Open(t.Context(), postgres.Options{Config: w.dbs.Lock.Config(t, "t_operator"), Purpose: postgres.Changing, MaxConns: 8, MarkDir: w.grantDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Close)
	h := &hammer{store: w.grantor(t), operator: operator, tokens: map[lockstore.Token]int{}, db: func() *pgx.Conn { return w.dbs.Lock.Conn(t, "t_lockapp") }}
	s := w.stores(t, how{})
	group, ctx := errgroup.WithContext(t.Context())
	for n := range clients {
		group.Go(func() error { return h.client(ctx, n) })
	}
	group.Go(func() error {
		for !h.over.Load() {
			if _, err := h.store.ReapSessions(ctx, 10); h.heard(err) != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer h.over.Store(true)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for !enough() {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := forward(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	h.store.Close()
	operator.Close()
	s.Lock.Close(context.WithoutCancel(t.Context()))
	return h
}

// found is how many deadlocks the server has counted in this test's database, once
// the hammer's processes are gone: each tells what it counted when it ends. The store
// tries again what a deadlock ended, and says nothing of it.
func found(t *testing.T, w *world) int64 {
	t.Helper()
	pgtest.Eventually(t, "the clients' server processes end", func(ctx context.Context) (ended bool, err error) {
		err = w.lock.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename IN ('t_lockapp', 't_operator'))`).Scan(&ended)
		return ended, err
	})
	return one[int64](t, w.lock, countDeadlocks)
}

const countDeadlocks = `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
