//go:build unix

package runner_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/runner"
)

// bubble is the clocks of a virtual machine.
type bubble struct {
	start time.Time
	mu    sync.Mutex
	// wall and boot are what these clocks are ahead of the monotonic one.
	wall, boot time.Duration
}

func (b *bubble) Now() runner.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	mono := time.Since(b.start)
	return runner.Instant{Mono: mono, Wall: mono + b.wall, Boot: mono + b.boot + 1}
}

// jump sets the clocks ahead; the server's clock, which decides, is the boot
// clock: it goes on while the machine sleeps.
func (b *bubble) jump(wall, boot time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wall += wall
	b.boot += boot
}

func (b *bubble) serverNow() time.Duration { return b.Now().Boot }

// service is a lock service in virtual time: each request takes a while to reach
// it, and a while to be answered.
type service struct {
	clock *bubble
	ttl   time.Duration
	there func() time.Duration
	back  func() time.Duration
	// fail decides on a request when it arrives; nil carries it out.
	fail func(ctx context.Context, doing string) error
	// answer decides on what was carried out when it is answered.
	answer func(ctx context.Context, doing string) error

	mu sync.Mutex
	// lease and session are their ends by the server's clock.
	lease, session time.Duration
	sent           map[string][]time.Duration
	calls          []string
	ending         runner.Ending
}

func pass(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// request carries one out on its way, unless the caller gave up before.
func (s *service) request(ctx context.Context, doing string, carryOut func(now time.Duration) error) error {
	s.mu.Lock()
	s.calls = append(s.calls, doing)
	s.sent[doing] = append(s.sent[doing], time.Since(s.clock.start))
	s.mu.Unlock()
	if err := pass(ctx, s.there()); err != nil {
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
	}
	if s.fail != nil {
		if err := s.fail(ctx, doing); err != nil {
			return err
		}
	}
	s.mu.Lock()
	err := carryOut(s.clock.serverNow())
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.answer != nil {
		if err := s.answer(ctx, doing); err != nil {
			return err
		}
	}
	if err := pass(ctx, s.back()); err != nil {
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
	}
	return nil
}

func (s *service) CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	return lockstore.Session{ID: "session0-1", Owner: owner}, s.request(ctx, "create", func(now time.Duration) error {
		s.session = now + ttl
		return nil
	})
}

func (s *service) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	return lockstore.Session{ID: id}, s.request(ctx, "heartbeat", func(now time.Duration) error {
		if s.session <= now {
			return lockstore.ErrSessionLost
		}
		s.session = max(s.session, now+ttl)
		return nil
	})
}

func (s *service) EndSession(ctx context.Context, _ lockstore.SessionID) (int, error) {
	return 0, s.request(ctx, "end", func(time.Duration) error {
		s.session, s.lease = 0, 0
		return nil
	})
}

func (s *service) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	return lockstore.Grant{Key: key, Token: token}, s.request(ctx, "renew", func(now time.Duration) error {
		if min(s.lease, s.session) <= now {
			return lockstore.ErrLockLost
		}
		s.lease = max(s.lease, now+ttl)
		return nil
	})
}

func (s *service) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	stale := false
	err := s.request(ctx, "release", func(time.Duration) error {
		stale = s.lease == 0
		s.lease = 0
		return nil
	})
	return lockstore.Release{Key: key, Token: token, Stale: stale}, err
}

func (s *service) Wait(ctx context.Context, p lockstore.WaitParams, sending func()) (lockstore.Grant, error) {
	sending()
	return lockstore.Grant{Key: p.Key, Token: 106, Session: p.Session}, s.request(ctx, "acquire:"+string(p.Session), func(now time.Duration) error {
		s.lease = now + p.TTL
		return nil
	})
}

func (s *service) Ending(context.Context, string, lockstore.Token) (runner.Ending, error) {
	return s.ending, nil
}

// end is when the lock can be another's, by the server's clock.
func (s *service) end() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.lease, s.session)
}

// play is one job in virtual time.
type play struct {
	*service

	clock   *bubble
	acts    *runner.Acts
	signals chan os.Signal
	said    []string
	// termAt and killAt are by the server's clock, 0 for never; endAtKill is what
	// the server held the lock until when KILL was sent.
	termAt, killAt, endAtKill, endAtTerm time.Duration
	// deeds is everything that the wrapper did, in order.
	deeds []string
}

// stubborn commands ignore TERM.
func newPlay(cfg *runner.Config, stubborn bool) *play {
	p := &play{clock: &bubble{start: time.Now()}, signals: make(chan os.Signal, 8)}
	still := func() time.Duration { return 0 }
	p.service = &service{clock: p.clock, ttl: cfg.TTL, there: still, back: still, sent: map[string][]time.Duration{}}
	p.acts = &runner.Acts{
		Ends: make(chan runner.ChildEnd, 4),
		Terminate: func() {
			p.deeds = append(p.deeds, "terminate")
			if p.termAt == 0 {
				p.termAt, p.endAtTerm = p.clock.serverNow(), p.end()
			}
			if !stubborn {
				p.acts.Ends <- runner.ChildEnd{Signal: syscall.SIGTERM}
			}
		},
		Kill: func() {
			p.deeds = append(p.deeds, "kill")
			if p.killAt == 0 {
				p.killAt, p.endAtKill = p.clock.serverNow(), p.end()
				p.acts.Ends <- runner.ChildEnd{Signal: syscall.SIGKILL}
			}
		},
		Forward: func(sig syscall.Signal) { p.deeds = append(p.deeds, sig.String()) },
		Resume:  func() { p.deeds = append(p.deeds, "resume") },
	}
	say := func(format string, args ...any) { p.said = append(p.said, fmt.Sprintf(format, args...)) }
	cfg.Key, cfg.Owner, cfg.Command, cfg.Env = "account:42", "w", []string{"sh"}, []string{"PATH=/bin:/usr/bin"}
	cfg.Clock, cfg.Note, cfg.Warn, cfg.ConflictExit = p.clock, say, say, runner.ExitNotAcquired
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	return p
}

func (p *play) run(t *testing.T, cfg runner.Config) runner.Result {
	t.Helper()
	job, err := runner.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return job.RunActs(t.Context(), func(context.Context) (runner.Holder, error) { return p.service, nil }, p.acts, p.signals)
}

// after does something at a moment of virtual time.
func after(d time.Duration, do func()) { time.AfterFunc(d, do) }
