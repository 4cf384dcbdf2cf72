package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// lookEvery is how often a key is looked at for its waiters: another replica may
	// have released it. One question asks for all keys.
	lookEvery = 100 * time.Millisecond
	// soonest is how soon a key is looked at again whose lease is all but over: in etcd it
	// stands at its last millisecond until the cluster has ended it.
	soonest = lookEvery / 5
	// longestPause bounds how long a key that a transaction blocks is put off: a
	// try that is blocked burns a token.
	longestPause = 2 * time.Second
	// sessionsEvery is how often waiters' sessions are looked at.
	sessionsEvery = time.Second
	// mostLooked is how many keys one question asks for.
	mostLooked = 1000
)

// Jitter is 0.5 to 1.5 of d, so that replicas do not look at the same moment.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // G404: nobody gains by guessing it
}

// putOff says when the key is to be looked at next: when its holder's lease is
// over, unless another replica releases it before; without a holder, which is a
// transaction that blocks it, later each time.
func (k *key) putOff(held *lockstore.HeldError) {
	if held == nil {
		k.pause = min(max(2*k.pause, lookEvery), longestPause)
		k.look = time.Now().Add(Jitter(k.pause))
		return
	}
	k.pause = 0
	next := Jitter(lookEvery)
	if held.Remaining > 0 {
		next = min(next, max(held.Remaining, soonest))
	}
	k.look = time.Now().Add(next)
}

// lookForWaiters looks at the keys that are waited for, when they are due, and
// lets the first waiter of each that is free try (K-2.8).
func (e *Engine) lookForWaiters(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	sessions := time.Now()
	for {
		due, next := e.due()
		if len(due) > 0 {
			e.lookAt(ctx, due)
			continue
		}
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-e.poke:
		case <-timer.C:
		}
		if time.Since(sessions) > sessionsEvery {
			e.lookAtSessions(ctx)
			sessions = time.Now()
		}
	}
}

// due returns the keys to be looked at now and, when there is none, when the next
// one is, 0 for never.
func (e *Engine) due() (due []string, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for k := range e.waited {
		left := k.look.Sub(now)
		switch {
		case left <= 0 && len(due) < mostLooked:
			due = append(due, k.name)
		case next == 0 || left < next:
			next = left
		}
	}
	return due, next
}

// lookAt asks about keys. Where it cannot be asked, the waiters wait on.
func (e *Engine) lookAt(ctx context.Context, names []string) {
	var entries map[string]lockstore.Entry
	db, err := e.db.Changing()
	if err == nil {
		err = e.db.Granting()
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		entries, err = db.Look(ctx, names)
		cancel()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		k := e.keys[name]
		if k == nil || k.head != nil || len(k.waiters) == 0 {
			continue
		}
		first := k.waiters[0]
		entry, stands := entries[name]
		own := entry.Session == first.params.Session && entry.Owner == first.params.Owner
		if err == nil && (!stands || entry.Expired || own) {
			e.promote(k)
			continue
		}
		held := &lockstore.HeldError{Key: name, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
		if err == nil {
			k.last, first.last = held, held
		}
		k.putOff(held)
	}
}

// lookAtSessions tells waiters whose session is gone: they wait for nothing.
func (e *Engine) lookAtSessions(ctx context.Context) {
	byID := e.parkedSessions()
	if len(byID) == 0 {
		return
	}
	db, err := e.db.Changing()
	if err != nil {
		return
	}
	ids := make([]lockstore.SessionID, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	for chunk := range slices.Chunk(ids, mostLooked) {
		asking, cancel := context.WithTimeout(ctx, callTimeout)
		live, err := db.LiveSessions(asking, chunk)
		cancel()
		if err != nil {
			return
		}
		e.mu.Lock()
		for _, id := range chunk {
			if live[id] {
				continue
			}
			for _, c := range byID[id] {
				e.sessionLost(c)
			}
		}
		e.mu.Unlock()
	}
}

func (e *Engine) parkedSessions() map[lockstore.SessionID][]*call {
	e.mu.Lock()
	defer e.mu.Unlock()
	byID := map[lockstore.SessionID][]*call{}
	for k := range e.waited {
		for _, c := range k.waiters {
			byID[c.params.Session] = append(byID[c.params.Session], c)
		}
	}
	return byID
}

func (e *Engine) sessionLost(c *call) {
	if c.state != parked {
		return // its own try says so
	}
	k := e.keys[c.key]
	k.waiters = slices.DeleteFunc(k.waiters, func(other *call) bool { return other == c })
	e.metrics.SessionLost()
	e.tell(c, answer{err: lockstore.ErrSessionLost})
	e.tidy(k)
}

// LookNow has keys looked at now, since something is known to have happened to
// them; none names all.
func (e *Engine) LookNow(names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if len(names) == 0 {
		for k := range e.waited {
			k.look = now
		}
	}
	for _, name := range names {
		if k := e.keys[name]; k != nil {
			k.look = now
		}
	}
	e.wake()
}
