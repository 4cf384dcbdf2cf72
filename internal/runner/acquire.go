package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// tidyUp bounds what is still asked of the lock service when all is over.
	tidyUp = 5 * time.Second
	// reentries bounds how often an unknown acquire is asked again.
	reentries = 3
)

// errTimeout is the cause of a context that Config.Timeout ended.
var errTimeout = errors.New("no answer in time")

// acquire makes the session, waits for the lock and makes sure that it is held
// for long enough to begin. A signal ends it at once.
func (r *run) acquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sum(r.cfg.Wait, r.cfg.Timeout), errTimeout)
	defer cancel()
	waiting, interrupted := r.inbox.during(ctx)
	err := r.granted(waiting)
	if sig := interrupted(); sig != 0 {
		return &InterruptedError{r.cfg.Key, sig}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (r *run) granted(ctx context.Context) (err error) {
	if r.holder, err = r.open(ctx); err != nil {
		return err
	}
	if err := r.openSession(ctx); err != nil {
		return err
	}
	if err := r.wait(ctx); err != nil {
		return err
	}
	// After a long wait the session is due, and a slow answer has cost some of
	// the lease: the command begins with at least half.
	for r.trust.left(r.cfg.Clock.Now()) < r.cfg.TTL/2 {
		b := r.beat(ctx)
		if b.err != nil {
			return b.err
		}
		r.trust.take(b)
	}
	return nil
}

func (r *run) openSession(ctx context.Context) error {
	r.trust = trust{grace: r.cfg.Grace, session: promise{r.cfg.Clock.Now(), r.cfg.TTL}}
	if r.cfg.Session != "" {
		r.result.Session = r.cfg.Session
		_, err := r.holder.Heartbeat(ctx, r.cfg.Session, r.cfg.TTL)
		return err
	}
	session, err := r.holder.CreateSession(ctx, r.cfg.Owner, r.cfg.TTL)
	if err != nil {
		return err
	}
	r.own, r.result.Session = true, session.ID
	return nil
}

// wait acquires. A try whose answer was lost is made again under the same
// session: it re-enters what the first may have been granted (K-2.9).
func (r *run) wait(ctx context.Context) error {
	params := lockstore.WaitParams{
		AcquireParams: lockstore.AcquireParams{Key: r.cfg.Key, Owner: r.cfg.Owner, Session: r.result.Session, TTL: r.cfg.TTL},
		Max:           r.cfg.Wait, SessionTTL: r.cfg.TTL, Waiting: r.cfg.OnHeld,
	}
	var sent Instant
	for try := 1; ; try++ {
		grant, err := r.holder.Wait(ctx, params, func() { sent = r.cfg.Clock.Now() })
		_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
		switch {
		case err == nil:
			r.result.Grant, r.trust.lease = grant, promise{sent, r.cfg.TTL}
			return nil
		case !unknown || try == reentries || ctx.Err() != nil:
			return err
		}
	}
}

// beat extends the session, then the lease, and takes in each promise as it is
// made.
func (r *run) beat(ctx context.Context) beaten {
	var b beaten
	sent := r.cfg.Clock.Now()
	if _, b.err = r.holder.Heartbeat(ctx, r.result.Session, r.cfg.TTL); b.err != nil {
		return b
	}
	b.session = &promise{sent, r.cfg.TTL}
	sent = r.cfg.Clock.Now()
	if _, b.err = r.holder.Renew(ctx, r.cfg.Key, r.result.Grant.Token, r.cfg.TTL); b.err != nil {
		return b
	}
	b.lease = &promise{sent, r.cfg.TTL}
	return b
}

// beaten is what a beat brought.
type beaten struct {
	session, lease *promise
	err            error
}

func (b beaten) lost() bool {
	return errors.Is(b.err, lockstore.ErrLockLost) || errors.Is(b.err, lockstore.ErrSessionLost)
}

func (t *trust) take(b beaten) {
	if b.session != nil {
		t.session = *b.session
	}
	if b.lease != nil {
		t.lease = *b.lease
	}
}

// refused leaves nothing behind of a job that was not granted, and says why.
func (r *run) refused(ctx context.Context, err error) {
	r.settle(ctx)
	_, timeout := errors.AsType[*lockstore.WaitTimeoutError](err)
	interrupted, isInterrupted := errors.AsType[*InterruptedError](err)
	_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
	switch {
	case isInterrupted:
		r.end(Interrupted, ExitSignal+int(interrupted.Signal), err)
	case timeout:
		r.end(WaitTimeout, ExitWaitTimeout, err)
	case unreachable, unknown, errors.Is(err, errTimeout), errors.Is(err, context.Canceled):
		r.end(BackendDown, ExitBackendDown, &DownError{Key: r.cfg.Key, Err: err})
	case errors.Is(err, lockstore.ErrInvalid):
		r.end(NotAcquired, ExitUsage, err)
	default:
		r.end(NotAcquired, r.cfg.ConflictExit, err)
	}
}

// settle gives back whatever a try may have been granted, known or not: with a
// session made here by ending it; under one that was given, by entering again and
// releasing.
func (r *run) settle(ctx context.Context) {
	if r.result.Session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	var err error
	if r.own {
		_, err = r.holder.EndSession(ctx, r.result.Session)
	} else {
		err = r.giveBack(ctx)
	}
	if err != nil && !errors.Is(err, lockstore.ErrNotFound) && !errors.Is(err, lockstore.ErrSessionLost) {
		r.cfg.Warn("what was asked for lock %q is left to lapse within %s: %v", r.cfg.Key, r.cfg.TTL, err)
	}
}

func (r *run) giveBack(ctx context.Context) error {
	params := lockstore.AcquireParams{Key: r.cfg.Key, Owner: r.cfg.Owner, Session: r.result.Session, TTL: r.cfg.TTL}
	grant, err := r.holder.Wait(ctx, lockstore.WaitParams{AcquireParams: params}, func() {})
	if _, held := errors.AsType[*lockstore.HeldError](err); held {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.holder.Release(ctx, grant.Key, grant.Token)
	return err
}

// release gives the lock back after the command's end, and the session when it
// was made here. What becomes of it does not change how the command ended.
func (r *run) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.releaseTime())
	defer cancel()
	switch r.result.Outcome {
	case Lost, Revoked:
		r.explain(ctx)
	default:
	}
	if r.result.Survivors > 0 {
		r.result.Release = Kept
		r.cfg.Warn("lock %q: %s of the command could not be stopped, so it is left to lapse", r.cfg.Key, processCount(r.result.Survivors))
		return
	}
	release, err := r.holder.Release(ctx, r.cfg.Key, r.result.Grant.Token)
	r.result.Release = Released
	switch {
	case err != nil:
		r.result.Release = Unknown
	case release.Stale:
		r.result.Release = Stale
	}
	if r.own {
		// It takes the lock with it, so this settles an unknown release too.
		_, endErr := r.holder.EndSession(ctx, r.result.Session)
		gone := endErr == nil || errors.Is(endErr, lockstore.ErrNotFound)
		if gone && r.result.Release == Unknown {
			r.result.Release = Released
		}
		if !gone && err == nil {
			r.cfg.Warn("the session of lock %q is left to lapse in %s: %v", r.cfg.Key, r.cfg.TTL, endErr)
		}
	}
	switch {
	case r.result.Release == Unknown && r.result.Outcome != BackendDown:
		r.cfg.Warn("whether lock %q was released is not known; it ends by itself in %s at the latest: %v", r.cfg.Key, r.cfg.TTL, err)
	case r.result.Release == Stale && r.result.Outcome == Exited:
		r.tellStale(ctx)
	}
}

// releaseTime is short where nobody answered a moment ago.
func (r *run) releaseTime() time.Duration {
	if r.result.Outcome == BackendDown {
		return tidyUp / 5
	}
	return tidyUp
}

// explain looks up who took the lock away.
func (r *run) explain(ctx context.Context) {
	lost, isLost := errors.AsType[*LostError](r.result.Err)
	ending, err := r.holder.Ending(ctx, r.cfg.Key, r.result.Grant.Token)
	switch {
	case err != nil || !isLost:
		return
	case ending.Revocation != nil:
		r.result.Revocation = ending.Revocation
		r.end(Revoked, ExitRevoked, &RevokedError{*ending.Revocation})
	case words(ending.How) != "":
		lost.Why = words(ending.How)
	}
}

// tellStale says so when the lock went away and the command ended before that
// was noticed.
func (r *run) tellStale(ctx context.Context) {
	why := "the lease or the session had ended"
	if ending, err := r.holder.Ending(ctx, r.cfg.Key, r.result.Grant.Token); err == nil {
		switch {
		case ending.Revocation != nil:
			r.result.Revocation = ending.Revocation
			why = fmt.Sprintf("%q had revoked it: %s", ending.Revocation.Operator, ending.Revocation.Reason)
		case words(ending.How) != "":
			why = words(ending.How)
		}
	}
	r.cfg.Warn("lock %q was lost just before the command ended: %s; what it wrote since, the fence refuses (token %s)", r.cfg.Key, why, r.result.Grant.Token)
}

// words says a journal's word in a sentence.
func words(how string) string {
	return map[string]string{
		"expired": "its lease has run out", "taken_over": "its lease has run out, and another holds it", "re_entered": "its own session has entered it again",
		"reaped": "its session has ended", "voided": "a restore has voided it", "released": "somebody has released it",
	}[how]
}

// interrupts tells whether a signal ends the wait for a lock.
func interrupts(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	default:
		return false
	}
}

// sum adds two times; one without end does not overflow.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
