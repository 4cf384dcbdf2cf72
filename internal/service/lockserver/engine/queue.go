package engine

import (
	"slices"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

type kind int

// The kinds of a call.
const (
	kindAcquire kind = iota
	kindRelease
)

type state int

// The states of a call.
const (
	// queued: it is in its key's calls.
	queued state = iota
	// parked: it waits for the key to become free.
	parked
	// sent: it is in a transaction.
	sent
	// over: it was answered, or nobody waits for the answer.
	over
)

// answer is what a call is told.
type answer struct {
	grant   lockstore.Grant
	release lockstore.Release
	err     error
}

// call is one acquire or release on its way. The engine's mutex guards all but
// what never changes.
type call struct {
	kind   kind
	key    string
	params lockstore.AcquireParams // of an acquire
	token  lockstore.Token         // of a release
	since  time.Time

	state state
	// waits tells that the call is to wait for a held key.
	waits bool
	// gone tells that the caller is: a grant is given back.
	gone bool
	// last is why a waiting call has not been granted yet.
	last     error
	answered chan answer
}

func newCall(k kind, name string) *call {
	return &call{kind: k, key: name, since: time.Now(), answered: make(chan answer, 1)}
}

// key is the queue of one lock key.
type key struct {
	name string
	// calls are those to be sent, in the order in which they came.
	calls []*call
	// head is the waiter that tries, waiters those behind it.
	head    *call
	waiters []*call
	// busy tells that a call of the key is under way, listed that it stands in
	// ready.
	busy, listed bool
	// look is when the key is to be looked at for its waiters, pause how long that
	// was put off the last time.
	look  time.Time
	pause time.Duration
	// last is why the last try for the key was refused.
	last error
}

// enqueue takes a call in.
func (e *Engine) enqueue(c *call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.keys[c.key]
	if k == nil {
		k = &key{name: c.key}
		e.keys[c.key] = k
	}
	if c.waits {
		e.countWaiting(1)
		if k.head != nil || len(k.waiters) > 0 {
			c.state = parked
			k.waiters = append(k.waiters, c)
			return
		}
		k.head = c
	}
	e.push(k, c)
}

// push queues a call, and offers its key to the lanes.
func (e *Engine) push(k *key, c *call) {
	c.state = queued
	k.calls = append(k.calls, c)
	e.count(1)
	e.offer(k)
}

func (e *Engine) count(n int) {
	e.queued += n
	e.metrics.Queued(e.queued)
}

func (e *Engine) countWaiting(n int) {
	e.waiting += n
	e.metrics.Waiting(e.waiting)
}

func (e *Engine) offer(k *key) {
	if k.busy || k.listed || len(k.calls) == 0 {
		return
	}
	k.listed = true
	e.ready = append(e.ready, k)
	e.more.Signal()
}

// work is what one key has in a batch: a release, an acquire, or one behind the
// other.
type work struct {
	key              *key
	release, acquire *call
}

// take returns the next batch, or nil when the engine is closed and empty.
func (e *Engine) take() []work {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.ready) == 0 {
		if e.closed && e.underWay == 0 {
			return nil
		}
		e.more.Wait()
	}
	n := min(len(e.ready), lockstore.MaxBatch)
	e.underWay += n
	batch := make([]work, n)
	now := time.Now()
	for i, k := range e.ready[:n] {
		k.listed, k.busy = false, true
		batch[i] = e.takeOf(k, now)
	}
	e.ready = slices.Delete(e.ready, 0, n)
	if len(e.ready) > 0 {
		e.more.Signal()
	}
	return batch
}

// takeOf takes the key's next call, and behind a release the acquire that the key
// goes to next: the first waiter, or else the next that was queued (K-1.3).
func (e *Engine) takeOf(k *key, now time.Time) work {
	w := work{key: k}
	first := e.pop(k, now)
	if first.kind == kindAcquire {
		w.acquire = first
		return w
	}
	w.release = first
	switch {
	case k.head == nil && len(k.waiters) > 0:
		e.promote(k)
		w.acquire = e.popAt(k, len(k.calls)-1, now)
	case len(k.calls) > 0 && k.calls[0].kind == kindAcquire:
		w.acquire = e.pop(k, now)
	}
	return w
}

func (e *Engine) pop(k *key, now time.Time) *call { return e.popAt(k, 0, now) }

func (e *Engine) popAt(k *key, i int, now time.Time) *call {
	c := k.calls[i]
	k.calls = slices.Delete(k.calls, i, i+1)
	e.count(-1)
	if !c.waits {
		e.metrics.BatchWait(now.Sub(c.since))
	}
	c.state = sent
	return c
}

// promote lets the first waiter try.
func (e *Engine) promote(k *key) {
	if k.head != nil || len(k.waiters) == 0 {
		return
	}
	k.head = k.waiters[0]
	k.waiters = slices.Delete(k.waiters, 0, 1)
	delete(e.waited, k)
	e.push(k, k.head)
}

// done lets the key's next call go, or has somebody look at it for its waiters.
func (e *Engine) done(k *key) {
	k.busy = false
	e.underWay--
	e.offer(k)
	e.tidy(k)
	if e.closed {
		e.more.Broadcast()
	}
}

// tidy forgets a key that nobody asks for, and has one looked at that is waited
// for.
func (e *Engine) tidy(k *key) {
	if k.head == nil && len(k.waiters) > 0 {
		if !e.waited[k] || !k.look.After(time.Now()) {
			e.waited[k] = true
			e.wake()
		}
		return
	}
	delete(e.waited, k)
	if !k.busy && len(k.calls) == 0 && k.head == nil {
		delete(e.keys, k.name)
	}
}

// wake has the keys looked at that are due.
func (e *Engine) wake() {
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// tell answers a call.
func (e *Engine) tell(c *call, a answer) {
	if c.waits {
		e.countWaiting(-1)
	}
	c.state = over
	c.answered <- a
}

// abandon takes a call out whose caller has gone. It tells whether nothing was
// sent; otherwise its grant is given back when it comes.
func (e *Engine) abandon(c *call) (unsent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.state == queued || c.state == parked {
		e.remove(c)
		return true
	}
	c.gone = true
	return false
}

// giveUpWaiting takes a call out that has waited long enough. One that was sent
// gets the answer of that try.
func (e *Engine) giveUpWaiting(c *call) (unsent bool, last error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.state == queued || c.state == parked {
		last = c.last
		if last == nil {
			last = e.keys[c.key].last
		}
		if last == nil {
			last = &lockstore.HeldError{Key: c.key}
		}
		e.remove(c)
		return true, last
	}
	if c.waits && c.state == sent {
		c.waits = false
		e.countWaiting(-1)
	}
	return false, c.last
}

// remove takes a call out that was not sent.
func (e *Engine) remove(c *call) {
	k := e.keys[c.key]
	if c.state == queued {
		k.calls = slices.DeleteFunc(k.calls, func(other *call) bool { return other == c })
		e.count(-1)
		if k.listed && len(k.calls) == 0 {
			k.listed = false
			e.ready = slices.DeleteFunc(e.ready, func(other *key) bool { return other == k })
		}
	} else {
		k.waiters = slices.DeleteFunc(k.waiters, func(other *call) bool { return other == c })
	}
	if k.head == c {
		k.head = nil
		k.look = time.Now() // the next one may find it free
	}
	if c.waits {
		e.countWaiting(-1)
	}
	c.state = over
	e.tidy(k)
}
