package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// longestTick is how late a suspension of the machine is noticed at most: the
	// timers of this process slept through it.
	longestTick = 250 * time.Millisecond
	// sweepTick is how often it is looked whether what was stopped is gone.
	sweepTick = 10 * time.Millisecond
	// killPatience is how long what was killed may take to be gone.
	killPatience = 5 * time.Second
	// stopSettles is how long a stop of the wrapper's own group takes at most. When
	// it has passed, the group was stopped and is continued, or cannot be stopped.
	stopSettles = 100 * time.Millisecond
)

// supervision is a command while it runs.
type supervision struct {
	*run

	child process
	beats chan beaten
	// cancelBeat ends the attempt under way; nil when there is none.
	cancelBeat context.CancelFunc
	// beatAgain is when to try again after a failure, and pause how long was
	// paused before it; beatErr is why.
	beatAgain time.Time
	pause     time.Duration
	beatErr   error

	looked Instant
	// overslept tells that the wrapper was not running for a while.
	overslept, lost bool
	// stopping is set once the command is being stopped, at stopAt.
	stopping bool
	stopAt   Instant
	killed   bool
	killAt   Instant
	gone     bool // the main process has ended
	asleep   bool // the main process is stopped
	resumeAt time.Time
}

// supervise sees a command to its end: nothing of it is left, or can be stopped.
func supervise(ctx context.Context, r *run, child process) {
	s := &supervision{run: r, child: child, beats: make(chan beaten, 1), looked: r.cfg.Clock.Now()}
	defer s.stopBeating()
	s.tellGuard(s.looked)
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		var event func(Instant)
		select {
		case <-timer.C:
		case c := <-child.changes():
			event = func(now Instant) { s.changed(c, now) }
		case sig := <-r.inbox.signals:
			event = func(now Instant) { s.signalled(sig, now) }
		case b := <-s.beats:
			event = func(now Instant) { s.beaten(b, now) }
		case <-done:
			done = nil
			event = func(now Instant) { s.stop(now, Lost, ExitLost, s.lostBecause(context.Cause(ctx).Error())) }
		}
		// Whatever woke it up: the clocks come first (K-2.10).
		now := r.cfg.Clock.Now()
		s.look(ctx, now)
		if event != nil {
			event(now)
		}
		if s.finished(now) {
			return
		}
		timer.Reset(s.next(now))
	}
}

// look does what the clocks demand.
func (s *supervision) look(ctx context.Context, now Instant) {
	passed := now.Since(s.looked)
	s.overslept = s.overslept || passed > s.cfg.TTL/3
	s.looked = now
	if s.gone && s.child.others() == 0 {
		return
	}
	if left := s.trust.left(now); left <= 0 {
		s.tooLate(now, passed, -left)
	} else if s.trust.untilTerm(now) <= 0 {
		s.notRenewed(now)
	}
	switch {
	case s.killed:
		s.child.kill() // what was born meanwhile
	case s.stopping && s.untilKill(now) <= 0:
		s.kill(now)
	}
	if !s.resumeAt.IsZero() && time.Until(s.resumeAt) <= 0 {
		s.goOn()
	}
	if !s.lost && s.cancelBeat == nil && s.untilBeat(now) <= 0 {
		s.startBeat(ctx)
	}
}

// tooLate kills at once: the lease may be another's by now.
func (s *supervision) tooLate(now Instant, passed, late time.Duration) {
	if s.killed {
		return
	}
	s.kill(now)
	s.stop(now, Lost, ExitLost, s.lostBecause(fmt.Sprintf("%s passed at once, for this process was suspended or the clock was set, and the lease ran out", round(passed))))
	if s.gone || s.asleep {
		return // nothing of it is awake to do harm, but for what it left behind
	}
	s.result.Overlap = late
	s.cfg.Warn("lock %q: woke up %s after the lease could have ended; the command may have run beside the next holder until now: there the fence protects (token %s)",
		s.cfg.Key, round(late), s.result.Grant.Token)
}

// notRenewed stops the command while the lock is still held.
func (s *supervision) notRenewed(now Instant) {
	if s.stopping {
		return
	}
	silence := now.Since(s.trust.lease.sent)
	if s.overslept && s.beatErr == nil {
		s.cfg.Warn("lock %q: this process was not running, and the lease ends in %s: stopping the command", s.cfg.Key, round(s.trust.left(now)))
		s.stop(now, Lost, ExitLost, s.lostBecause("this process was not running, and its lease was not renewed in time"))
		return
	}
	err := s.beatErr
	if err == nil {
		err = errTimeout
	}
	s.cfg.Warn("lock %q was not renewed for %s: stopping the command before the lease can end", s.cfg.Key, round(silence))
	s.stop(now, BackendDown, ExitBackendDown, &DownError{Key: s.cfg.Key, Stopped: true, Err: err})
}

func (s *supervision) lostBecause(why string) error {
	return &LostError{Key: s.cfg.Key, Token: s.result.Grant.Token, Why: why}
}

// stop begins to stop the command, and says what it came to: unless its main
// process has ended before, by itself.
func (s *supervision) stop(now Instant, outcome Outcome, exit int, err error) {
	if s.stopping {
		return
	}
	if !s.gone {
		s.run.end(outcome, exit, err)
	}
	s.sweep(now)
}

func (s *supervision) sweep(now Instant) {
	s.stopping, s.stopAt = true, now
	if !s.killed {
		s.child.terminate()
	}
}

func (s *supervision) kill(now Instant) {
	if s.killed {
		return
	}
	s.killed, s.killAt, s.result.Killed = true, now, true
	s.child.kill()
}

// untilKill is the rest of the grace, and never beyond what may be trusted.
func (s *supervision) untilKill(now Instant) time.Duration {
	return min(s.cfg.Grace-now.Since(s.stopAt), s.trust.untilKill(now))
}

func (s *supervision) changed(c change, now Instant) {
	switch c.kind {
	case stopped:
		s.asleep = true
		if s.child.suspend(c.sig) {
			s.cfg.Note("lock %q: stopped with its command; the lease ends in %s unless it goes on before", s.cfg.Key, round(s.trust.left(now)))
			stopSelf()
			s.resumeAt = time.Now().Add(stopSettles)
		}
	case continued:
		s.asleep = false
	case ended:
		s.mainEnded(now)
	}
}

// mainEnded sweeps up what the main process left behind, while the lock is held.
func (s *supervision) mainEnded(now Instant) {
	s.gone = true
	if s.result.Outcome == Running {
		s.result.Outcome = Exited
	}
	if left := s.child.others(); left > 0 && !s.stopping {
		s.result.Swept = left
		s.cfg.Note("lock %q: the command has left %s behind; stopping what is left", s.cfg.Key, processCount(left))
		s.sweep(now)
	}
}

func (s *supervision) signalled(sig os.Signal, _ Instant) {
	number, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case isContinue(number):
		s.goOn()
	default:
		s.child.forward(number)
	}
}

// goOn continues the command, after the clocks have been looked at.
func (s *supervision) goOn() {
	s.resumeAt = time.Time{}
	if !s.killed {
		s.child.resume()
	}
}

func (s *supervision) beaten(b beaten, now Instant) {
	s.cancelBeat()
	s.cancelBeat = nil
	s.trust.take(b)
	s.tellGuard(now)
	switch {
	case b.err == nil:
		s.overslept, s.pause, s.beatAgain, s.beatErr = false, 0, time.Time{}, nil
	case b.lost() && !s.lost:
		s.lost = true
		if !s.stopping && !s.gone {
			s.cfg.Warn("lock %q is lost: stopping the command", s.cfg.Key)
		}
		s.stop(now, Lost, ExitLost, s.lostBecause(reasonOf(b.err)))
	default:
		s.beatErr = b.err
		s.pause = min(max(2*s.pause, s.cfg.TTL/60), s.cfg.TTL/12)
		s.beatAgain = time.Now().Add(s.pause/2 + rand.N(s.pause)) //nolint:gosec // G404: 0.5 to 1.5 of it, against a herd
	}
}

// startBeat renews in a goroutine of its own: the clocks go on to be looked at.
func (s *supervision) startBeat(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.trust.attempt(), errTimeout)
	s.cancelBeat = cancel
	go func() { s.beats <- s.beat(ctx) }()
}

// stopBeating waits until the connection is free again.
func (s *supervision) stopBeating() {
	if s.cancelBeat != nil {
		s.cancelBeat()
		s.trust.take(<-s.beats)
	}
}

// tellGuard gives the guard the same moment as the wrapper has, a quarter of the
// margin later: awake, the wrapper comes first.
func (s *supervision) tellGuard(now Instant) {
	s.child.trusted(now.after(s.trust.left(now) - s.trust.margin()*3/4))
}

func (s *supervision) untilBeat(now Instant) time.Duration {
	if !s.beatAgain.IsZero() {
		return time.Until(s.beatAgain)
	}
	return s.trust.untilBeat(now)
}

// finished tells that nothing of the command is left, or that it cannot be
// stopped.
func (s *supervision) finished(now Instant) bool {
	if !s.gone {
		return false
	}
	others := s.child.others()
	switch {
	case others == 0:
	case s.killed && now.Since(s.killAt) > killPatience:
		s.result.Survivors = others
	default:
		return false
	}
	end := s.child.end()
	s.result.Child = &end
	if s.result.Outcome == Exited {
		s.result.Exit = end.Exit()
	}
	return true
}

// next is the time until the next look.
func (s *supervision) next(now Instant) time.Duration {
	next := longestTick
	if !s.lost && s.cancelBeat == nil {
		next = min(next, s.untilBeat(now))
	}
	switch {
	case s.killed, s.gone:
		next = min(next, sweepTick)
	case s.stopping:
		next = min(next, s.untilKill(now))
	default:
		next = min(next, s.trust.untilTerm(now))
	}
	if !s.resumeAt.IsZero() {
		next = min(next, time.Until(s.resumeAt))
	}
	return max(next, time.Millisecond)
}

// reasonOf says a loss in a clause.
func reasonOf(err error) string {
	if errors.Is(err, lockstore.ErrSessionLost) {
		return "its session has ended"
	}
	return "the lease is not this holder's any more"
}

func processCount(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
