package runner

import "time"

// promise is a time that the lock service has promised: a lease, or a session.
type promise struct {
	// sent is the clocks before the request left (K-2.10).
	sent Instant
	ttl  time.Duration
}

func (p promise) left(now Instant) time.Duration { return p.ttl - now.Since(p.sent) }

// trust is how long a grant may be relied on, and what must be done before.
type trust struct {
	lease, session promise
	// grace is the command's time between TERM and KILL.
	grace time.Duration
}

// left is the time for which nobody else can hold the lock; below zero it has
// run out.
func (t trust) left(now Instant) time.Duration {
	return min(t.lease.left(now), t.session.left(now))
}

// margin is kept between KILL and the end of the lease: for a busy machine to
// deliver it.
func (t trust) margin() time.Duration {
	return min(max(t.lease.ttl/8, 10*time.Millisecond), time.Second)
}

// untilKill and untilTerm are the times left until each must have been sent.
func (t trust) untilKill(now Instant) time.Duration { return t.left(now) - t.margin() }
func (t trust) untilTerm(now Instant) time.Duration { return t.untilKill(now) - t.grace }

// untilBeat is the time left until the older promise is a third gone.
func (t trust) untilBeat(now Instant) time.Duration {
	return t.lease.ttl/3 - max(now.Since(t.lease.sent), now.Since(t.session.sent))
}

// attempt bounds one attempt to renew: a black-holed connection is given up in
// time for another one before TERM.
func (t trust) attempt() time.Duration { return t.lease.ttl / 4 }

// MaxGrace is the longest grace for a ttl: with more of it, TERM would come so
// early that the lease could not be renewed before.
func MaxGrace(ttl time.Duration) time.Duration { return ttl / 3 }

// DefaultGrace is the grace when none is given.
func DefaultGrace(ttl time.Duration) time.Duration { return min(ttl/6, 10*time.Second) }
