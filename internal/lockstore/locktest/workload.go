package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Cut says where a fault cuts a client off.
type Cut int

// BeforeCommit loses the request before its COMMIT has reached the backend;
// AfterCommit loses the answer.
const (
	BeforeCommit Cut = iota
	AfterCommit
)

// Client is one user of the backend, as another process would be.
type Client struct {
	Store lockstore.Store
	// Cut, when set, loses the client's next change of the backend.
	Cut func(Cut)
}

// Workload makes a history: clients that acquire, renew, re-enter, release,
// revoke, look, forget, and hold on past the end of their leases.
type Workload struct {
	Clients []Client
	Keys    int
	// Seed decides what each client does, not how they interleave.
	Seed uint64
	// ShortTTL and LongTTL bound the leases; default 100 to 300 ms.
	ShortTTL, LongTTL time.Duration
	// Least is what the history must have before it ends, of operations, takeovers,
	// re-entries, revocations and unknown outcomes.
	Least Stats
	// Until, when set, must be true as well. At Limit the history ends whatever it
	// has, for the caller to judge.
	Until func() bool
	Limit time.Duration
}

// Run makes the history. Returns the first error that no client may be told,
// beside what was recorded until then.
func (w Workload) Run(ctx context.Context) (History, error) {
	if w.ShortTTL == 0 {
		w.ShortTTL, w.LongTTL = lockstore.MinTTL, 3*lockstore.MinTTL
	}
	record, p := NewRecorder(), &progress{last: make(map[string]lastGrant)}
	record.heard = p.hear
	ctx, cancel := context.WithTimeoutCause(ctx, w.Limit, errLimit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i, client := range w.Clients {
		c := &worker{
			Workload: w, Actor: record.Actor(client.Store, fmt.Sprintf("client-%d", i), ""),
			cutOff: client.Cut, progress: p, random: rand.New(rand.NewPCG(w.Seed, uint64(i))),
		}
		group.Go(func() error { return c.run(ctx) })
	}
	err := group.Wait()
	if errors.Is(err, errLimit) {
		err = nil
	}
	return record.History(), err
}

var errLimit = errors.New("the history's time is over")

// progress guesses how much a history has, to tell when to stop.
type progress struct {
	last                                        map[string]lastGrant
	ops, takeovers, reEntries, revoked, unknown atomic.Int64
}

type lastGrant struct {
	owner   string
	session lockstore.SessionID
	token   lockstore.Token
	ended   bool
}

func (p *progress) hear(o Op) {
	if o.Result == Failed {
		return
	}
	p.ops.Add(1)
	last := p.last[o.Key]
	switch {
	case o.Result == Unknown:
		p.unknown.Add(1)
		last.ended = true
	case o.Result != OK:
	case o.Kind == Acquire:
		switch {
		case last.owner == "" || last.ended || o.Answer.Token <= last.token:
		case last.owner != o.Owner:
			p.takeovers.Add(1)
		case last.session == o.Session:
			p.reEntries.Add(1)
		}
		last = lastGrant{owner: o.Owner, session: o.Session, token: o.Answer.Token}
	case o.Kind == Revoke:
		p.revoked.Add(1)
		last.ended = last.ended || o.Token == last.token
	case o.Kind == Release && o.Token == last.token:
		last.ended = true
	}
	p.last[o.Key] = last
}

// enough asks for a quarter more of what is only guessed.
func (c *worker) enough() bool {
	p, least := c.progress, c.Least
	for _, want := range []struct {
		have  *atomic.Int64
		least int
	}{{&p.takeovers, least.Takeovers}, {&p.reEntries, least.ReEntries}, {&p.revoked, least.Revoked}, {&p.unknown, least.Unknown}} {
		if 4*want.have.Load() < 5*int64(want.least) {
			return false
		}
	}
	return p.ops.Load() >= int64(least.Ops) && (c.Until == nil || c.Until())
}

// worker is one client at work.
type worker struct {
	Workload
	*Actor
	cutOff   func(Cut)
	progress *progress
	random   *rand.Rand
	// old are grants that it once had, and may wrongly use again.
	old []lockstore.GrantRef
}

func (c *worker) run(ctx context.Context) error {
	for !c.enough() {
		err := c.turn(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("client %s: %w", c.Owner, err)
		}
		if c.away {
			c.pause(ctx, 5*time.Millisecond)
		}
	}
	return nil
}

// turn is one thing that a client does.
func (c *worker) turn(ctx context.Context) error {
	key := fmt.Sprintf("key-%d", c.random.IntN(c.Keys))
	switch n := c.random.IntN(100); {
	case n < 8:
		return c.Show(ctx, key)
	case n < 14:
		return c.wrongly(ctx)
	default:
		return c.lock(ctx, key)
	}
}

// wrongly uses a grant that is over, or never was.
func (c *worker) wrongly(ctx context.Context) error {
	if len(c.old) == 0 {
		return nil
	}
	ref := c.old[c.random.IntN(len(c.old))]
	c.cut()
	switch c.random.IntN(3) {
	case 0:
		_, err := c.Renew(ctx, ref, c.ttl())
		return err
	case 1:
		return c.Release(ctx, ref)
	default:
		return c.Revoke(ctx, ref)
	}
}

// lock acquires, and when it has the key, is one of many kinds of holder.
func (c *worker) lock(ctx context.Context, key string) error {
	ttl := c.ttl()
	grant, held, err := c.acquire(ctx, key, ttl)
	if err != nil {
		return err
	}
	if held.Token != 0 && c.random.IntN(100) < 3 {
		return c.Revoke(ctx, held)
	}
	if grant.Token == 0 {
		if !c.Store.Capabilities().OwnTTL {
			// Sessions lapse slowly: what waits for them must not fill the history.
			c.pause(ctx, ttl/20)
		}
		return nil
	}
	switch n := c.random.IntN(100); {
	case n < 30:
		return c.release(ctx, grant)
	case n < 50: // works, renewing
		return c.work(ctx, grant, 1+c.random.IntN(3), ttl/8)
	case n < 60: // enters again
		again, _, err := c.acquire(ctx, key, c.ttl())
		if err != nil || again.Token == 0 {
			return err
		}
		return c.release(ctx, again)
	case n < 85: // is stopped past its lease, and goes on as if nothing had happened
		return c.work(ctx, grant, 1, ttl+ttl/4)
	default: // is never heard of again
		if !c.Store.Capabilities().OwnTTL {
			c.Session = ""
		}
		return nil
	}
}

// work renews after each pause, until it is told that the grant is lost.
func (c *worker) work(ctx context.Context, grant lockstore.GrantRef, renewals int, pause time.Duration) error {
	for range renewals {
		c.pause(ctx, pause)
		c.cut()
		if mine, err := c.Renew(ctx, grant, c.ttl()); err != nil || !mine {
			return err
		}
	}
	return c.release(ctx, grant)
}

// live sees to a session that lasts as long as the lease that is to be asked for: where
// leases are their session's, a holder that stops or dies is one whose session does. No
// session is no error: the backend was not to be reached.
func (c *worker) live(ctx context.Context, ttl time.Duration) (bool, error) {
	caps := c.Store.Capabilities()
	if caps.OwnTTL {
		ttl = time.Hour
	}
	if !caps.Sessions || caps.OwnTTL && c.Session != "" {
		return true, nil
	}
	session, err := lockstore.Session{}, lockstore.ErrSessionLost
	if c.Session != "" {
		session, err = c.Store.Heartbeat(ctx, c.Session, ttl)
	}
	if errors.Is(err, lockstore.ErrSessionLost) {
		c.Session = ""
		session, err = c.Store.CreateSession(ctx, c.Owner, ttl)
	}
	if c.away = away(err); err != nil {
		if c.away {
			err = nil
		}
		return false, err
	}
	c.Session = session.ID
	if !caps.OwnTTL {
		c.SessionTrust = session.Sent.Add(ttl)
	}
	return true, nil
}

// sessionLost tells whether the session has lapsed before the lock was asked for, which
// happens where both are equally short.
func (c *worker) sessionLost(err error) bool {
	return errors.Is(err, lockstore.ErrSessionLost) && !c.Store.Capabilities().OwnTTL
}

// remembered bounds the old grants that a client may use wrongly.
const remembered = 16

func (c *worker) acquire(ctx context.Context, key string, ttl time.Duration) (grant, held lockstore.GrantRef, err error) {
	if live, err := c.live(ctx, ttl); err != nil || !live {
		return grant, held, err
	}
	c.cut()
	if grant, held, err = c.Acquire(ctx, key, ttl); c.sessionLost(err) {
		c.Session, err = "", nil
	}
	if grant.Token != 0 {
		c.old = append(c.old, grant)
		c.old = c.old[max(0, len(c.old)-remembered):]
	}
	return grant, held, err
}

func (c *worker) release(ctx context.Context, grant lockstore.GrantRef) error {
	c.cut()
	return c.Release(ctx, grant)
}

func (c *worker) ttl() time.Duration {
	const step = 10 * time.Millisecond
	return c.ShortTTL + step*time.Duration(c.random.Int64N(int64((c.LongTTL-c.ShortTTL)/step)+1))
}

func (c *worker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// cut loses the client's next change, now and then.
func (c *worker) cut() {
	if c.cutOff != nil && c.random.IntN(60) == 0 {
		c.cutOff(Cut(c.random.IntN(2)))
	}
}
