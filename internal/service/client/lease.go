package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/lease"
)

// The causes of a lease's context, beside lockstore.ErrLockLost and
// lockstore.ErrSessionLost and whatever ended the context above it.
var (
	// ErrRevoked comes with lockstore.ErrLockLost: an operator took the lock away.
	ErrRevoked = errors.New("revoked by an operator")
	// ErrBackendDown tells that nobody answered in time to renew the lease. The lock may
	// still stand; it can be trusted no longer.
	ErrBackendDown = errors.New("the lock could not be renewed in time")
	// ErrSlept comes with lockstore.ErrLockLost: the process or the machine stood
	// still until the lease was over.
	ErrSlept = errors.New("the lease passed unrenewed: this process or its machine stood still")
	// ErrClosed tells that the holder let go itself.
	ErrClosed = errors.New("the lease was closed by its holder")
)

const (
	// longestMargin and its tenth of a lease bound how long before the end of what may
	// be trusted the work is told to stop.
	longestMargin = time.Second
	// shortestWatch and longestWatch bound how often the clocks are compared: a timer
	// counts by the monotonic one, which stands still while the machine sleeps.
	shortestWatch, longestWatch = 10 * time.Millisecond, 500 * time.Millisecond
	// longestInquiry bounds the question why a lock is gone, for the work goes on
	// meanwhile.
	longestInquiry = 250 * time.Millisecond
)

// Keeper is the part of lockstore.Store that keeps a lease alive.
type Keeper interface {
	Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error)
	Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error)
	GrantHistory(ctx context.Context, token lockstore.Token) (lockstore.GrantRecord, error)
}

// LeaseParams say what is kept.
type LeaseParams struct {
	// Grant is what Acquire answered: its TTL and Sent count.
	Grant lockstore.Grant
	// Session is the one that the grant hangs on, as it was made or last heartbeated;
	// the zero value where there are none.
	Session lockstore.Session
	// SessionTTL is how long each heartbeat extends it to; 0 is the grant's TTL.
	SessionTTL time.Duration
}

// Lease is a lock that is held and renews itself.
type Lease struct {
	keeper     Keeper
	grant      lockstore.Grant
	sessionID  lockstore.SessionID
	sessionTTL time.Duration
	// cancel ends the lease's context; cause is why that has ended, nil while it goes on.
	cancel context.CancelCauseFunc
	cause  func() error
	done   chan struct{}

	mu      sync.Mutex
	lock    lease.Promise
	session lease.Promise
	last    error // why the last renewal failed, nil when it did not
}

// Keep renews a grant at a third of its lease, and its session at a third of its own,
// until the context above ends or Close is called. The context it returns ends with
// the cause before lease or session can expire (K-2.10), and at once when either is
// lost: work under the lock runs under it. The caller closes the lease, which
// releases nothing.
func Keep(ctx context.Context, keeper Keeper, p LeaseParams) (context.Context, *Lease) {
	l := &Lease{
		keeper: keeper, grant: p.Grant, sessionID: p.Session.ID, sessionTTL: p.SessionTTL, done: make(chan struct{}),
		lock:    lease.Promise{Sent: p.Grant.Sent, TTL: p.Grant.TTL},
		session: lease.Promise{Sent: p.Session.Sent, TTL: p.Session.Remaining},
	}
	if l.sessionTTL <= 0 {
		l.sessionTTL = p.Grant.TTL
	}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel, l.cause = cancel, func() error { return context.Cause(held) }
	go l.run(held)
	return held, l
}

// Session is the session's promise as its last heartbeat left it.
func (l *Lease) Session() lockstore.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lockstore.Session{ID: l.sessionID, Owner: l.grant.Owner, Sent: l.session.Sent, Remaining: l.session.TTL}
}

// Left is how long the holder may still trust lock and session: the smaller of the
// two, by the clock that says more has passed.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left(time.Now())
}

// Check returns nil while the lock may be trusted, and else why it may not. It looks
// at the clocks itself: after a machine's sleep it knows before any timer fires.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left(time.Now()) <= l.margin() {
		l.cancel(l.overdue())
	}
	return l.cause()
}

// Close ends the lease's context, and returns when nothing of it runs any more.
func (l *Lease) Close() {
	l.cancel(ErrClosed)
	<-l.done
}

func (l *Lease) left(now time.Time) time.Duration {
	left := l.lock.Left(now)
	if l.sessionID != "" {
		left = min(left, l.session.Left(now))
	}
	return left
}

func (l *Lease) margin() time.Duration { return min(l.grant.TTL/10, longestMargin) }

// overdue is why nothing is left to trust.
func (l *Lease) overdue() error {
	why := fmt.Errorf("keep lock %q with token %s: %w: %w", l.grant.Key, l.grant.Token, lockstore.ErrLockLost, ErrSlept)
	if l.last != nil {
		why = fmt.Errorf("keep lock %q with token %s: %w: %w", l.grant.Key, l.grant.Token, ErrBackendDown, l.last)
	}
	return why
}

// renewal is what became of one.
type renewal struct{ err error }

// run watches the clocks and asks for renewals, one at a time. The clocks are watched
// while a renewal is under way, too: it may hang.
func (l *Lease) run(ctx context.Context) {
	defer close(l.done)
	answers := make(chan renewal, 1)
	asking := false
	defer func() {
		if asking {
			<-answers // it runs under ctx, which has ended
		}
	}()
	pauses := pauses(l.grant.TTL)
	var notBefore time.Time
	watch := time.NewTimer(0)
	defer watch.Stop()
	for {
		wait, due := l.look(time.Now())
		if due && !asking && !time.Now().Before(notBefore) {
			asking = true
			go func() { answers <- renewal{l.ask(ctx)} }()
		}
		watch.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case renewed := <-answers:
			asking = false
			if l.heard(ctx, renewed.err) {
				pauses.Reset()
				continue
			}
			notBefore = time.Now().Add(pauses.NextBackOff())
		case <-watch.C:
		}
	}
}

// look ends a lease that is over, and tells how long to wait and whether a renewal is
// due.
func (l *Lease) look(now time.Time) (wait time.Duration, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.left(now) - l.margin()
	if left <= 0 {
		l.cancel(l.overdue())
		return longestWatch, false
	}
	renew := l.lock.RenewIn(now)
	if l.sessionID != "" {
		renew = min(renew, l.session.RenewIn(now))
	}
	wait = min(left, max(shortestWatch, min(l.grant.TTL/60, longestWatch)))
	if renew > 0 {
		wait = min(wait, renew)
	}
	return wait, renew <= 0
}

// heard takes a renewal's outcome down, and tells whether it succeeded.
func (l *Lease) heard(ctx context.Context, err error) bool {
	if errors.Is(err, lockstore.ErrLockLost) && l.revoked(ctx) {
		err = fmt.Errorf("%w: %w", err, ErrRevoked)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = err
	if errors.Is(err, lockstore.ErrLockLost) || errors.Is(err, lockstore.ErrSessionLost) {
		l.cancel(fmt.Errorf("keep lock %q with token %s: %w", l.grant.Key, l.grant.Token, err))
	}
	return err == nil
}

// ask extends what is due, the session first: a lock dies with it.
func (l *Lease) ask(ctx context.Context) error {
	l.mu.Lock()
	now := time.Now()
	beat, renew := l.sessionID != "" && l.session.RenewIn(now) <= 0, l.lock.RenewIn(now) <= 0
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.grant.TTL/6)
	defer cancel()
	if beat {
		sent := time.Now()
		if _, err := l.keeper.Heartbeat(ctx, l.sessionID, l.sessionTTL); err != nil {
			return err
		}
		l.extend(&l.session, lease.Promise{Sent: sent, TTL: l.sessionTTL})
	}
	if renew {
		sent := time.Now()
		if _, err := l.keeper.Renew(ctx, l.grant.Key, l.grant.Token, l.grant.TTL); err != nil {
			return err
		}
		l.extend(&l.lock, lease.Promise{Sent: sent, TTL: l.grant.TTL})
	}
	return nil
}

func (l *Lease) extend(p *lease.Promise, by lease.Promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*p = lease.Longer(*p, by, time.Now())
}

// revoked asks the journal how the grant ended. Where nobody knows, or may know, the
// lock is lost all the same.
func (l *Lease) revoked(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, min(l.grant.TTL/10, longestInquiry))
	defer cancel()
	record, err := l.keeper.GrantHistory(ctx, l.grant.Token)
	return err == nil && record.Ended == "revoked"
}

// pauses are those between two tries to renew a lease of ttl.
func pauses(ttl time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = max(ttl/100, shortestWatch), max(ttl/20, shortestWatch)
	b.Reset()
	return b
}
