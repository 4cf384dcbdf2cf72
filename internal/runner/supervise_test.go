//go:build unix

package runner_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/runner"
)

// However slow the service is, and however it goes away, TERM comes a grace before
// the lock can be another's by the service's own clock, and KILL before it.
//
// Clauses: K-2.10
// Mutation: read the clock after Renew has answered in beat, or leave the session
// out of trust.left.
func TestStoppedBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(source.Int64N(int64(d)))
	}
	stopped := 0
	for i := range 400 {
		ttl := 100*time.Millisecond + upTo(30*time.Second)
		cfg := runner.Config{TTL: ttl, Grace: upTo(runner.MaxGrace(ttl) + 1)}
		downFrom, slowest := upTo(5*ttl), ttl/100
		if i%3 > 0 {
			slowest = ttl / 5
		}
		latency := func() time.Duration { return upTo(slowest) }
		mode := []string{"refuses", "hangs", "loses answers", "answers late"}[i%4]
		synctest.Test(t, func(t *testing.T) {
			p := newPlay(&cfg, i%8 < 4)
			p.there, p.back = latency, latency
			down := func() bool { return time.Since(p.clock.start) >= downFrom }
			p.fail = func(ctx context.Context, doing string) error {
				switch {
				case !down() || doing == "release" || doing == "end":
				case mode == "refuses":
					return &lockstore.UnreachableError{Doing: doing, Err: errors.New("connection refused")}
				case mode == "hangs":
					<-ctx.Done()
					return &lockstore.UnreachableError{Doing: doing, Err: ctx.Err()}
				}
				return nil
			}
			p.answer = func(ctx context.Context, doing string) error {
				switch {
				case !down() || doing == "release" || doing == "end":
				case mode == "loses answers":
					return &lockstore.UnknownOutcomeError{Doing: doing, Err: errors.New("cut")}
				case mode == "answers late":
					return pass(ctx, ttl/2)
				}
				return nil
			}
			after(20*ttl, func() { p.acts.Ends <- runner.ChildEnd{} }) // it would go on
			result := p.run(t, cfg)
			if result.Started.IsZero() {
				return // too slow to begin at all
			}
			stopped++
			if result.Outcome != runner.BackendDown && result.Outcome != runner.Lost || p.termAt == 0 {
				t.Errorf("case %d, %s from %s, ttl %s: %s, TERM at %s", i, mode, downFrom, ttl, result.Outcome, p.termAt)
			}
			if p.termAt+cfg.Grace > p.endAtTerm {
				t.Errorf("case %d, %s, ttl %s: TERM at %s is no grace of %s before the end at %s", i, mode, ttl, p.termAt, cfg.Grace, p.endAtTerm)
			}
			if p.killAt != 0 && p.killAt >= p.endAtKill {
				t.Errorf("case %d, %s, ttl %s: KILL at %s, the lock ended at %s", i, mode, ttl, p.killAt, p.endAtKill)
			}
		})
	}
	if stopped < 200 {
		t.Errorf("only %d of 400 commands were begun: the cases are too slow to show anything", stopped)
	}
}

// A lease is renewed when a third of it has passed, the session before it, and as
// long as that goes well the command is left alone.
//
// Clauses: K-2.10
// Mutation: renew at a half in untilBeat.
func TestRenewsAtAThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 30 * time.Second, Grace: 5 * time.Second}
		p := newPlay(&cfg, false)
		after(95*time.Second, func() { p.acts.Ends <- runner.ChildEnd{Code: 7} })
		result := p.run(t, cfg)
		if result.Outcome != runner.Exited || result.Exit != 7 || result.Release != runner.Released || p.termAt != 0 {
			t.Errorf("%+v, TERM at %s", result, p.termAt)
		}
		for _, doing := range []string{"heartbeat", "renew"} {
			if len(p.sent[doing]) != 9 {
				t.Errorf("%s at %v, want every 10 s", doing, p.sent[doing])
			}
			for i, at := range p.sent[doing] {
				if late := at - time.Duration(i+1)*10*time.Second; late < 0 || late > 100*time.Millisecond {
					t.Errorf("%s %d at %s", doing, i, at)
				}
			}
		}
		if got := strings.Join(p.calls[len(p.calls)-2:], " "); got != "release end" {
			t.Errorf("in the end it calls %q", got)
		}
	})
}

// A transient failure is made good: it is tried again at once, and the command
// never hears of it.
//
// Mutation: set beatAgain a third of the ttl later.
func TestTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 30 * time.Second, Grace: 10 * time.Second}
		p := newPlay(&cfg, false)
		failures := 3
		p.fail = func(_ context.Context, doing string) error {
			if doing == "renew" && failures > 0 {
				failures--
				return &lockstore.UnreachableError{Doing: doing, Err: errors.New("refused")}
			}
			return nil
		}
		after(2*time.Minute, func() { p.acts.Ends <- runner.ChildEnd{} })
		if result := p.run(t, cfg); result.Outcome != runner.Exited || p.termAt != 0 || len(p.said) > 0 {
			t.Errorf("%+v, TERM at %s, %q", result, p.termAt, p.said)
		}
	})
}

// A suspended machine wakes up with its monotonic clock where it was. What it does
// first is to kill, before the signal and the answer that wait for it; and it says
// how long there may have been two. Whichever of the two other clocks tells.
//
// Clauses: K-2.10
// Mutation: take Wall or Boot out of Instant.Since, or call event before look in
// supervise.
func TestWakesUpTooLate(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]struct{ wall, boot time.Duration }{
		"wall and boot clock tell": {time.Hour, time.Hour}, "the wall clock alone tells": {time.Hour, 0}, "the boot clock alone tells": {0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := runner.Config{TTL: 30 * time.Second, Grace: 10 * time.Second}
				p := newPlay(&cfg, true)
				after(35*time.Second, func() {
					p.clock.jump(by.wall, by.boot)
					p.signals <- syscall.SIGUSR1
				})
				after(10*time.Minute, func() { p.acts.Ends <- runner.ChildEnd{} }) // at the latest
				result := p.run(t, cfg)
				if i := slices.Index(p.deeds, "kill"); i != 0 {
					t.Errorf("it did %v, want kill first", p.deeds)
				}
				if result.Outcome != runner.Lost || result.Exit != runner.ExitLost || !result.Killed {
					t.Errorf("%+v", result)
				}
				if late := time.Hour - 30*time.Second; result.Overlap < late || result.Overlap > time.Hour {
					t.Errorf("overlap %s, want about %s", result.Overlap, late)
				}
				if said := strings.Join(p.said, "\n"); !strings.Contains(said, "there the fence protects (token 106)") {
					t.Errorf("it says %q", said)
				}
			})
		})
	}
}

// A machine that slept into the grace still has the time to ask first.
//
// Mutation: call tooLate in the place of notRenewed.
func TestWakesUpInTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 30 * time.Second, Grace: 10 * time.Second}
		p := newPlay(&cfg, false)
		after(time.Second, func() { p.clock.jump(22*time.Second, 22*time.Second) })
		result := p.run(t, cfg)
		if result.Outcome != runner.Lost || result.Killed || result.Overlap != 0 || p.termAt == 0 || p.termAt > p.endAtTerm {
			t.Errorf("%+v, TERM at %s, the end at %s", result, p.termAt, p.endAtTerm)
		}
	})
}

// What was taken away is noticed with the next heartbeat, and the command has its
// grace; the audit says who did it.
//
// Clauses: K-2.10, K-3.5
// Mutation: leave ErrSessionLost out of beaten.lost, or explain out of release.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		take     func(*service)
		ending   runner.Ending
		stubborn bool
		outcome  runner.Outcome
		exit     int
		says     string
	}{
		"revoked": {
			func(s *service) { s.lease = 0 },
			runner.Ending{How: "revoked", Revocation: &lockstore.Revocation{ID: 7, Key: "account:42", PrevToken: 106, Operator: "erin@ops", Reason: "deploy"}},
			false, runner.Revoked, runner.ExitRevoked, `revoked by "erin@ops": deploy`,
		},
		"session ended": {func(s *service) { s.lease, s.session = 0, 0 }, runner.Ending{How: "reaped"}, false, runner.Lost, runner.ExitLost, "its session has ended"},
		"stubborn":      {func(s *service) { s.lease = 0 }, runner.Ending{}, true, runner.Lost, runner.ExitLost, "not this holder's any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := runner.Config{TTL: 30 * time.Second, Grace: 3 * time.Second}
				p := newPlay(&cfg, c.stubborn)
				p.ending = c.ending
				var taken time.Duration
				after(41*time.Second, func() {
					p.mu.Lock()
					defer p.mu.Unlock()
					taken = p.clock.serverNow()
					c.take(p.service)
				})
				result := p.run(t, cfg)
				if result.Outcome != c.outcome || result.Exit != c.exit || !strings.Contains(result.Err.Error(), c.says) {
					t.Errorf("%+v", result)
				}
				if p.termAt < taken || p.termAt > taken+cfg.TTL/3+time.Second {
					t.Errorf("taken at %s, TERM at %s: not within one heartbeat", taken, p.termAt)
				}
				if c.stubborn && (p.killAt < p.termAt+cfg.Grace || p.killAt > p.termAt+cfg.Grace+time.Second) {
					t.Errorf("TERM at %s, KILL at %s, want the grace of %s between", p.termAt, p.killAt, cfg.Grace)
				}
				if !c.stubborn && p.killAt != 0 {
					t.Errorf("KILL at %s", p.killAt)
				}
			})
		})
	}
}
