package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// detectSoon has deadlocks of the database found at once: PostgreSQL looks for
// one after a second, later than a batch gives up waiting.
func detectSoon(t *testing.T, b bundle) {
	t.Helper()
	b.exec(t, `ALTER DATABASE `+pgx.Identifier{b.dbs.Lock.Name}.Sanitize()+` SET deadlock_timeout = '5ms'`)
}

// deadlocks is how many the server has found in this test's database, once the
// stores are closed: a server process tells what it counted when it ends.
func deadlocks(t *testing.T, b bundle, stores ...lockstore.Store) (n int) {
	t.Helper()
	for _, store := range append(stores, b.store) {
		store.Close()
	}
	pgtest.Eventually(t, "the clients' server processes end", func(ctx context.Context) (ended bool, err error) {
		err = b.super.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename = 't_lockapp')`).Scan(&ended)
		return ended, err
	})
	if err := b.super.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Single acquires and batches of 16 clients under short sessions, releases in
// bulk, ended sessions, bulk revokes and three reapers, all over 60 keys: the
// server finds no deadlock, not even one that the store would try again.
//
// Clauses: K-2.4, K-3.4
// Mutation: ORDER BY in any of queries/lock_*.sql or release_many.sql, or the
// order of a batch; TestPlainFormsDeadlock shows what then happens.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	detectSoon(t, b)
	store := open(t, options(t, b.dbs))
	t.Logf("seed %d", seed)
	hunt := &hunt{store: store, long: over(max(time.Minute, min(soak(t), 10*time.Minute))), limit: over(4*time.Minute + soak(t))}
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 16 {
		h := &hunter{hunt: hunt, owner: fmt.Sprint("client-", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		group.Go(func() error { return h.run(ctx) })
	}
	for range 3 {
		group.Go(func() error { return hunt.reap(ctx) })
	}
	group.Go(func() error { return hunt.revoke(ctx) })
	if err := group.Wait(); err != nil {
		t.Errorf("a client was told: %v", err)
	}
	t.Logf("%d grants, %d reaped, %d revoked in bulk, %d blocked", hunt.grants.Load(), hunt.reaped.Load(), hunt.revoked.Load(), hunt.blocked.Load())
	if !hunt.enough() {
		t.Error("too little happened")
	}
	if n := deadlocks(t, b, store); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// hunt is what all its clients share.
type hunt struct {
	store lockstore.Store
	// long tells when it may end, limit when it must.
	long, limit                      func() bool
	grants, reaped, revoked, blocked atomic.Int64
}

func (h *hunt) enough() bool {
	return h.grants.Load() >= 1000 && h.reaped.Load() > 0 && h.revoked.Load() > 0
}

func (h *hunt) over() bool { return h.limit() || h.long() && h.enough() }

// heard lets pass that a key or a session was blocked: on a busy machine others may
// keep it so long. A deadlock is another error, and the server has counted it.
func (h *hunt) heard(err error) error {
	if _, blocked := errors.AsType[*lockstore.BlockedError](err); blocked {
		h.blocked.Add(1)
		return nil
	}
	return err
}

func (h *hunt) reap(ctx context.Context) error {
	for !h.over() {
		got, err := h.store.ReapSessions(ctx, 10)
		if err := h.heard(err); err != nil {
			return err
		}
		h.reaped.Add(int64(got.Locks))
	}
	return nil
}

func (h *hunt) revoke(ctx context.Context) error {
	for n := 0; !h.over(); n++ {
		params := lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: fmt.Sprint("k", n%6)}, Operator: "erin", Reason: "hunt"}
		entries, err := h.store.List(ctx, params.Filter)
		if err != nil {
			return err
		}
		params.Expect = len(entries)
		outcomes, err := h.store.RevokeMany(ctx, params)
		if _, moved := errors.AsType[*lockstore.CountMovedError](err); moved {
			continue
		}
		if err := h.heard(err); err != nil {
			return err
		}
		h.revoked.Add(int64(len(outcomes)))
	}
	return nil
}

// hunter is a client that does what takes several locks at once.
type hunter struct {
	*hunt
	owner  string
	random *rand.Rand
}

func (h *hunter) run(ctx context.Context) error {
	for !h.over() {
		first, err := h.store.CreateSession(ctx, h.owner, lockstore.MinTTL)
		if err != nil {
			return err
		}
		second, err := h.store.CreateSession(ctx, h.owner, 2*lockstore.MinTTL)
		if err != nil {
			return err
		}
		for range 3 {
			if err := h.turn(ctx, first.ID, second.ID); err != nil {
				return err
			}
		}
		if h.random.IntN(3) > 0 {
			continue // left for the reapers
		}
		_, err = h.store.EndSession(ctx, second.ID)
		if err := h.heard(err); err != nil && !errors.Is(err, lockstore.ErrNotFound) {
			return err
		}
	}
	return nil
}

// turn acquires a batch under both sessions, in no order, or a single key.
func (h *hunter) turn(ctx context.Context, sessions ...lockstore.SessionID) error {
	var params []lockstore.AcquireParams
	for _, i := range h.random.Perm(60)[:16] {
		params = append(params, lockstore.AcquireParams{
			Key: fmt.Sprintf("k%02d", i), Owner: h.owner, Session: sessions[h.random.IntN(len(sessions))], TTL: lockstore.MinTTL,
		})
	}
	if h.random.IntN(2) == 0 {
		_, err := h.store.Acquire(ctx, params[0])
		return h.answer(err)
	}
	results, err := h.store.AcquireBatch(ctx, params)
	if err != nil {
		return h.heard(err) // its sessions were blocked
	}
	var refs []lockstore.GrantRef
	for _, r := range results {
		if err := h.answer(r.Err); err != nil {
			return err
		}
		if r.Err == nil {
			refs = append(refs, lockstore.GrantRef{Key: r.Grant.Key, Token: r.Grant.Token})
		}
	}
	if len(refs) == 0 || h.random.IntN(2) == 0 {
		return nil
	}
	_, err = h.store.ReleaseBatch(ctx, refs)
	return h.heard(err)
}

// answer lets pass what a client may be told.
func (h *hunter) answer(err error) error {
	if err == nil {
		h.grants.Add(1)
		return nil
	}
	if _, held := errors.AsType[*lockstore.HeldError](err); held || errors.Is(err, lockstore.ErrSessionLost) {
		return nil
	}
	return h.heard(err)
}

// crossing is two writers that want the keys a and b: the first stops while it
// deletes b, the second comes meanwhile.
type crossing struct{ first, second writer }

type writer func(ctx context.Context, c *crossed) error

// crossed is what two writers cross over: the keys a and b under lapsed sessions.
type crossed struct {
	bundle
	conns  map[string]*pgx.Conn
	tokens map[string]lockstore.Token
}

// The plain forms of the reaper and of a bulk release deadlock in every round;
// the store's own, played in the same order, in none.
//
// Clauses: K-2.4
// Mutation: the plain statements are the mutation, and the test expects them to
// deadlock.
func TestPlainFormsDeadlock(t *testing.T) {
	t.Parallel()
	for name, forms := range map[string]struct{ ordered, plain crossing }{
		"bulk release": {
			ordered: crossing{releaseOrdered("1", "b", "a"), releaseOrdered("2", "a", "b")},
			plain:   crossing{releasePlain("1", "b", "a"), releasePlain("2", "a", "b")},
		},
		"reaper": {
			ordered: crossing{reapOrdered, releaseOrdered("2", "a", "b")},
			plain:   crossing{reapPlain, releaseOrdered("2", "a", "b")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, form := range map[string]struct {
				crossing
				want int
			}{"ordered": {forms.ordered, 0}, "plain": {forms.plain, rounds}} {
				b := setup(t, 16)
				detectSoon(t, b)
				stop := pauseAt(t, b, "aa_pause", "BEFORE DELETE", "OLD.lock_key = 'b'")
				b.exec(t, `ALTER TABLE lock_session DISABLE TRIGGER lock_session_guard`)
				caught := 0
				for range rounds {
					if cross(t, b, stop, form.crossing) {
						caught++
					}
				}
				if caught != form.want {
					t.Errorf("%s: %d of %d rounds deadlock, want %d", kind, caught, rounds, form.want)
				}
				if n := deadlocks(t, b); n != form.want {
					t.Errorf("%s: the server found %d deadlocks, want %d", kind, n, form.want)
				}
			}
		})
	}
}

func releasePlain(conn string, keys ...string) writer {
	return release(conn, `DELETE FROM lock_entry e USING unnest($1::text[], $2::bigint[]) r (k, t) WHERE e.lock_key = r.k AND e.fencing_token = r.t`, keys)
}

// releaseOrdered is the store's own statement, without the store's second try.
func releaseOrdered(conn string, keys ...string) writer {
	return release(conn, postgres.Queries()["release_many"], keys)
}

func release(conn, sql string, keys []string) writer {
	return func(ctx context.Context, c *crossed) error {
		tokens := make([]int64, len(keys))
		for i, key := range keys {
			tokens[i] = int64(c.tokens[key])
		}
		_, err := c.conns[conn].Exec(ctx, sql, keys, tokens)
		return err
	}
}

func reapOrdered(ctx context.Context, c *crossed) error {
	_, err := c.store.ReapSessions(ctx, 10)
	return err
}

func reapPlain(ctx context.Context, c *crossed) error {
	_, err := c.conns["1"].Exec(ctx, `DELETE FROM lock_session WHERE expires_at <= now()`)
	return err
}

// cross plays one round and tells whether a writer was the victim of a deadlock.
func cross(t *testing.T, b bundle, stop *pause, play crossing) (victim bool) {
	t.Helper()
	c := &crossed{bundle: b, tokens: make(map[string]lockstore.Token), conns: map[string]*pgx.Conn{
		"1": b.dbs.Lock.Conn(t, "t_lockapp"), "2": b.dbs.Lock.Conn(t, "t_lockapp"),
	}}
	defer func() {
		for _, conn := range c.conns {
			_ = conn.Close(t.Context())
		}
	}()
	b.exec(t, `DELETE FROM lock_session`)
	// b's session stands first in the table: without an order, b's row is come to
	// before a's.
	for _, key := range []string{"b", "a"} {
		session := b.session(t, "alice")
		c.tokens[key] = b.acquire(t, key, "alice", session, time.Hour).Token
		b.exec(t, `UPDATE lock_session SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE session_id = $1`, string(session))
	}
	var group errgroup.Group
	stop.shut(t)
	errs := make([]error, 2)
	for i, write := range []writer{play.first, play.second} {
		group.Go(func() error { errs[i] = write(t.Context(), c); return nil })
		stop.waiting(t, i+1)
	}
	stop.open(t)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, err := range errs {
		pgErr, refused := errors.AsType[*pgconn.PgError](err)
		switch {
		case refused && pgErr.Code == pgerrcode.DeadlockDetected:
			victim = true
		case err != nil:
			t.Errorf("a writer was told: %v", err)
		}
	}
	return victim
}
