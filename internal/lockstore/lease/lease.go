// Package lease is the arithmetic of what a holder may trust (K-2.10): how long a
// promise of lockdb still stands by the holder's own clocks, and when to ask for it
// again. It knows no store and starts nothing.
package lease

import "time"

// Promise is a lease or a session as its holder may trust it.
type Promise struct {
	// Sent is the holder's clock before the request left it, monotonic reading kept:
	// lockdb counted from later than that, so its clock ends the promise no sooner.
	Sent time.Time
	// TTL is what was asked for.
	TTL time.Duration
}

// Left is how long the promise may still be trusted at now, zero or less for no
// longer.
func (p Promise) Left(now time.Time) time.Duration { return p.TTL - Passed(p.Sent, now) }

// RenewIn is how long from now the promise should be asked for again: at a third of
// it, so that two more tries fit in.
func (p Promise) RenewIn(now time.Time) time.Duration { return p.TTL/3 - Passed(p.Sent, now) }

// Passed is the time from then to now, by whichever clock says more: the monotonic
// one stands still while a machine is suspended, the wall clock may be set back.
func Passed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Longer is the promise that stands longer at now: no renewal cuts an older one
// short, for lockdb keeps the later end.
func Longer(a, b Promise, now time.Time) Promise {
	if a.Left(now) > b.Left(now) {
		return a
	}
	return b
}
