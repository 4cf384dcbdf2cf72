package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// lane carries out one batch after another. What comes meanwhile is the next
// batch: a call that finds a lane idle goes at once and alone.
func (e *Engine) lane(ctx context.Context) {
	for {
		// The answers of the last batch let their callers run, and those who have
		// another call ready are to be in this one.
		runtime.Gosched()
		batch := e.take()
		if batch == nil {
			return
		}
		e.carryOut(ctx, batch)
	}
}

// carryOut is one transaction for the whole batch, and tells each caller what
// became of its call once the commit has answered (K-1.4).
func (e *Engine) carryOut(ctx context.Context, batch []work) {
	db, err := e.db.Changing()
	if err != nil {
		e.failAll(batch, err)
		return
	}
	closed := e.db.Granting()
	var x postgres.Exchange
	keys := 0
	for _, w := range batch {
		if w.release != nil {
			x.Releases = append(x.Releases, lockstore.GrantRef{Key: w.key.name, Token: w.release.token})
		}
		if w.acquire != nil && closed == nil {
			x.Acquires = append(x.Acquires, w.acquire.params)
		}
		if w.release != nil || closed == nil {
			keys++
		}
	}
	if keys == 0 {
		e.failAll(batch, closed)
		return
	}
	e.metrics.Batch(keys)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := db.Exchange(ctx, x)
	if err != nil {
		e.db.Failed(err)
		e.unanswered(db, batch, err) //nolint:contextcheck // it goes on beside the lane, within the engine's life
		return
	}
	e.settleAll(db, batch, result, closed) //nolint:contextcheck // what goes alone goes on beside the lane, within the engine's life
}

// settleAll answers every call of a batch that was carried out.
func (e *Engine) settleAll(db Database, batch []work, result postgres.ExchangeResult, closed error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	releases, acquires := result.Releases, result.Acquires
	for _, w := range batch {
		var r *postgres.ReleaseResult
		var a *lockstore.AcquireResult
		if w.release != nil {
			r, releases = &releases[0], releases[1:]
		}
		switch {
		case w.acquire != nil && closed != nil:
			a = &lockstore.AcquireResult{Err: closed}
		case w.acquire != nil:
			a, acquires = &acquires[0], acquires[1:]
		}
		e.settle(db, w, r, a)
	}
}

// settle answers the calls of one key, and lets its next one go. A blocked call
// that nobody waits for in a queue goes on by itself, with the patience of a single
// one (K-2.11), and its key with it.
func (e *Engine) settle(db Database, w work, r *postgres.ReleaseResult, a *lockstore.AcquireResult) {
	var blocked []*call
	if r != nil {
		if isBlocked(r.Err) {
			blocked = append(blocked, w.release)
		} else {
			e.tellRelease(w.release, r.Release, r.Err)
		}
	}
	if a != nil {
		if isBlocked(a.Err) && !w.acquire.waits {
			blocked = append(blocked, w.acquire)
		} else {
			e.tellAcquire(w.key, w.acquire, a.Grant, a.Err)
		}
		if r != nil && a.Err == nil {
			e.metrics.HandOff(time.Since(w.release.since))
		}
	}
	if len(blocked) > 0 && e.goAlone(db, w.key, blocked) {
		return
	}
	for _, c := range blocked {
		if c.kind == kindRelease {
			e.tellRelease(c, lockstore.Release{}, r.Err)
		} else {
			e.tellAcquire(w.key, c, lockstore.Grant{}, a.Err)
		}
	}
	e.done(w.key)
}

func (e *Engine) tellRelease(c *call, release lockstore.Release, err error) {
	switch {
	case err != nil:
	case release.Stale:
		e.log.Info(eventReleased, slog.String("key", c.key), slog.Int64("token", int64(c.token)), slog.Bool("stale", true))
	default:
		e.metrics.Released()
		e.log.Debug(eventReleased, slog.String("key", c.key), slog.Int64("token", int64(c.token)))
	}
	e.tell(c, answer{release: release, err: err})
}

// tellAcquire answers an acquire, or puts a waiter back at the head of its queue.
func (e *Engine) tellAcquire(k *key, c *call, grant lockstore.Grant, err error) {
	wasHead := k.head == c
	if wasHead {
		k.head = nil
	}
	held, isHeld := errors.AsType[*lockstore.HeldError](err)
	if isHeld {
		e.metrics.Contended()
		k.last = held
	}
	if c.waits && !c.gone && (isHeld || isBlocked(err)) {
		c.state, c.last = parked, err
		k.waiters = append([]*call{c}, k.waiters...)
		k.putOff(held)
		return
	}
	switch {
	case err == nil:
		e.db.Saw(grant.Token)
		e.metrics.Granted()
		k.putOff(&lockstore.HeldError{Remaining: grant.TTL})
	case wasHead:
		k.look = time.Now() // whoever is next may find it free
	}
	if errors.Is(err, lockstore.ErrSessionLost) {
		e.metrics.SessionLost()
	}
	if c.gone && err == nil {
		back := newCall(kindRelease, k.name)
		back.token = grant.Token
		back.state = queued
		k.calls = append([]*call{back}, k.calls...)
		e.count(1)
		e.log.Info(eventGivenBack, slog.String("key", k.name), slog.Int64("token", int64(grant.Token)))
	}
	e.tell(c, answer{grant: grant, err: err})
}

// goAlone works on a blocked key by itself, while the others go on. It says no
// when too many are.
func (e *Engine) goAlone(db Database, k *key, calls []*call) bool {
	select {
	case e.alone <- struct{}{}:
	default:
		return false
	}
	e.working.Go(func() {
		defer func() { <-e.alone }()
		for _, c := range calls {
			e.callAlone(db, k, c)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.done(k)
	})
	return true
}

// callAlone makes one call by the store's single verb. Those that were queued
// behind a blocked try have waited as long as it, and for the same.
func (e *Engine) callAlone(db Database, k *key, c *call) {
	ctx, cancel := context.WithTimeout(e.life, callTimeout)
	defer cancel()
	if c.kind == kindRelease {
		release, err := db.Release(ctx, c.key, c.token)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.tellRelease(c, release, err)
		return
	}
	grant, err := db.Acquire(ctx, c.params)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tellAcquire(k, c, grant, err)
	if !isBlocked(err) {
		return
	}
	rest := k.calls[:0]
	for _, queued := range k.calls {
		if queued.kind == kindAcquire && !queued.waits {
			e.count(-1)
			e.tell(queued, answer{err: err})
			continue
		}
		rest = append(rest, queued)
	}
	k.calls = rest
}

// failAll answers a batch of which nothing was sent.
func (e *Engine) failAll(batch []work, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range batch {
		e.fail(w, err)
	}
}

func (e *Engine) fail(w work, err error) {
	if w.release != nil {
		e.tellRelease(w.release, lockstore.Release{}, err)
	}
	if w.acquire != nil {
		e.tellAcquire(w.key, w.acquire, lockstore.Grant{}, err)
	}
	e.done(w.key)
}

func isBlocked(err error) bool {
	_, blocked := errors.AsType[*lockstore.BlockedError](err)
	return blocked
}
