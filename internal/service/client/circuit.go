package client

import (
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// errOpen is a request that was not sent, because the last ones found nobody.
var errOpen = errors.New("the last connections failed; waiting before the next")

// failuresToOpen is how many connections in a row must fail before the circuit opens.
const failuresToOpen = 5

// circuit keeps many callers from all asking a service that is not there: after some
// connections in a row that failed it lets one through, now and then, and refuses the
// others at once. A service that answers anything closes it.
type circuit struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	pauses   *backoff.ExponentialBackOff
}

// newCircuit is closed; longest is the longest time between two that are let through.
func newCircuit(longest time.Duration) *circuit {
	pauses := &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: longest}
	pauses.Reset()
	return &circuit{pauses: pauses}
}

// enter asks for a connection; errOpen refuses it.
func (c *circuit) enter(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < failuresToOpen {
		return nil
	}
	if now.Before(c.until) {
		return errOpen
	}
	c.until = now.Add(c.pauses.NextBackOff()) // this one is let through, the next not before then
	return nil
}

// left tells what became of it: whether anybody was there.
func (c *circuit) left(now time.Time, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there {
		c.failures = 0
		c.pauses.Reset()
		return
	}
	c.failures++
	if c.failures == failuresToOpen {
		c.until = now.Add(c.pauses.NextBackOff())
	}
}
