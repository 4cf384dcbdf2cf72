//go:build unix

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/runner"
)

// A try whose answer was lost is made again under the same session, which enters
// again what the first may have been granted.
//
// Clauses: K-2.9
// Mutation: return the first unknown outcome in wait.
func TestEntersAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 30 * time.Second}
		p := newPlay(&cfg, false)
		cuts := 1
		p.answer = func(_ context.Context, doing string) error {
			if strings.HasPrefix(doing, "acquire") && cuts > 0 {
				cuts--
				return &lockstore.UnknownOutcomeError{Doing: doing, Err: errors.New("cut")}
			}
			return nil
		}
		p.acts.Ends <- runner.ChildEnd{}
		result := p.run(t, cfg)
		if result.Outcome != runner.Exited || result.Exit != 0 {
			t.Errorf("%+v", result)
		}
		if got := strings.Join(p.calls, " "); got != "create acquire:session0-1 acquire:session0-1 release end" {
			t.Errorf("it calls %q", got)
		}
	})
}

// What was not granted leaves nothing behind and runs nothing, and each reason has
// its own exit code.
//
// Clauses: K-2.9
// Mutation: leave settle out of refused, or swap two of its cases.
func TestRefused(t *testing.T) {
	t.Parallel()
	held := &lockstore.HeldError{Key: "account:42", Owner: "other", Token: 7}
	for name, c := range map[string]struct {
		err     error
		session lockstore.SessionID
		outcome runner.Outcome
		exit    int
		calls   string
	}{
		"held":          {held, "", runner.NotAcquired, 99, "create acquire:session0-1 end"},
		"blocked":       {&lockstore.BlockedError{Key: "account:42"}, "", runner.NotAcquired, 99, "create acquire:session0-1 end"},
		"grants closed": {&lockstore.GrantsClosedError{Reason: "frozen"}, "", runner.NotAcquired, 99, "create acquire:session0-1 end"},
		"wrong usage":   {fmt.Errorf("%w: no lock-server", lockstore.ErrInvalid), "", runner.NotAcquired, runner.ExitUsage, "create acquire:session0-1 end"},
		"wait ran out":  {&lockstore.WaitTimeoutError{Key: "account:42", Last: held}, "", runner.WaitTimeout, 201, "create acquire:session0-1 end"},
		"unreachable":   {&lockstore.UnreachableError{Doing: "acquire", Err: errors.New("refused")}, "", runner.BackendDown, 204, "create acquire:session0-1 end"},
		"unknown": {
			&lockstore.UnknownOutcomeError{Doing: "acquire", Err: errors.New("cut")}, "", runner.BackendDown, 204,
			"create acquire:session0-1 acquire:session0-1 acquire:session0-1 end",
		},
		"held, own session": {held, "mine0000-1", runner.NotAcquired, 99, "heartbeat acquire:mine0000-1 acquire:mine0000-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := runner.Config{TTL: 30 * time.Second, Session: c.session}
				p := newPlay(&cfg, false)
				cfg.ConflictExit = 99
				p.session = time.Hour
				p.fail = func(_ context.Context, doing string) error {
					if strings.HasPrefix(doing, "acquire") {
						return c.err
					}
					return nil
				}
				p.acts.Fails = errors.New("it must not be started")
				result := p.run(t, cfg)
				if result.Outcome != c.outcome || result.Exit != c.exit || !errors.Is(result.Err, c.err) || !result.Started.IsZero() {
					t.Errorf("%+v", result)
				}
				if got := strings.Join(p.calls, " "); got != c.calls {
					t.Errorf("it calls %q, want %q", got, c.calls)
				}
			})
		})
	}
}

// A signal ends the wait at once, whatever the service is doing; one for the
// command only does not. What may have been granted is given back.
//
// Clauses: K-2.8, K-2.9
// Mutation: drop every signal in during, or let USR1 interrupt.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, session := range []lockstore.SessionID{"", "mine0000-1"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := runner.Config{TTL: 30 * time.Second, Wait: time.Hour, Session: session}
			p := newPlay(&cfg, false)
			p.session = time.Hour
			first := true
			p.answer = func(ctx context.Context, doing string) error {
				if strings.HasPrefix(doing, "acquire") && first {
					first = false
					<-ctx.Done()
					return &lockstore.UnknownOutcomeError{Doing: doing, Err: ctx.Err()}
				}
				return nil
			}
			p.acts.Fails = errors.New("it must not be started")
			after(time.Second, func() { p.signals <- syscall.SIGUSR1 })
			after(time.Minute, func() { p.signals <- syscall.SIGTERM })
			result := p.run(t, cfg)
			if result.Outcome != runner.Interrupted || result.Exit != 128+int(syscall.SIGTERM) || p.lease != 0 {
				t.Errorf("%+v, the lease ends at %s", result, p.lease)
			}
			if passed := time.Since(p.clock.start); passed != time.Minute {
				t.Errorf("it ended after %s, want a minute", passed)
			}
			if last := p.calls[len(p.calls)-1]; session == "" && last != "end" || session != "" && last != "release" {
				t.Errorf("it calls %v", p.calls)
			}
		})
	}
}

// A service that does not answer is given up after the timeout, on top of the wait.
//
// Mutation: leave the timeout out of acquire.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: time.Second, Wait: 10 * time.Second, Timeout: 5 * time.Second}
		p := newPlay(&cfg, false)
		p.fail = func(ctx context.Context, doing string) error {
			if doing == "create" {
				<-ctx.Done()
				return &lockstore.UnreachableError{Doing: doing, Err: ctx.Err()}
			}
			return nil
		}
		result := p.run(t, cfg)
		if result.Outcome != runner.BackendDown || result.Exit != 204 || time.Since(p.clock.start) != 15*time.Second {
			t.Errorf("%+v after %s", result, time.Since(p.clock.start))
		}
	})
}

// A lease that a slow answer has eaten up is renewed before the command begins.
//
// Clauses: K-2.10
// Mutation: take the loop out of granted.
func TestBeginsWithTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 10 * time.Second, Grace: time.Second}
		p := newPlay(&cfg, false)
		p.answer = func(ctx context.Context, doing string) error {
			if strings.HasPrefix(doing, "acquire") {
				return pass(ctx, 7*time.Second)
			}
			return pass(ctx, time.Second)
		}
		p.acts.Ends <- runner.ChildEnd{}
		result := p.run(t, cfg)
		if begun := result.Started.Sub(p.clock.start); begun != 10*time.Second {
			t.Errorf("the command begins after %s, want 10s: one for the session, seven for the lease, two to renew both", begun)
		}
		if got := strings.Join(p.calls, " "); got != "create acquire:session0-1 heartbeat renew release end" {
			t.Errorf("it calls %q", got)
		}
	})
}

// However the release goes, the command's own exit code stands; what is not known
// is said.
//
// Clauses: K-2.7
// Mutation: return the release's error from release, or leave the end of the
// session out of it.
func TestRelease(t *testing.T) {
	t.Parallel()
	cut := func(doing string) error { return &lockstore.UnknownOutcomeError{Doing: doing, Err: errors.New("cut")} }
	for name, c := range map[string]struct {
		cut     []string
		gone    bool
		release runner.ReleaseOutcome
		says    string
	}{
		"released":              {nil, false, runner.Released, ""},
		"settled by session":    {[]string{"release"}, false, runner.Released, ""},
		"unknown":               {[]string{"release", "end"}, false, runner.Unknown, "ends by itself in 30s at the latest"},
		"session left":          {[]string{"end"}, false, runner.Released, "left to lapse"},
		"lost just before":      {nil, true, runner.Stale, `"erin@ops" had revoked it: deploy`},
		"lost, and not settled": {[]string{"end"}, true, runner.Stale, "had revoked it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := runner.Config{TTL: 30 * time.Second}
				p := newPlay(&cfg, false)
				p.ending = runner.Ending{How: "revoked", Revocation: &lockstore.Revocation{Operator: "erin@ops", Reason: "deploy"}}
				p.answer = func(_ context.Context, doing string) error {
					if slices.Contains(c.cut, doing) {
						return cut(doing)
					}
					return nil
				}
				after(time.Second, func() {
					if c.gone {
						p.lease = 0
					}
					p.acts.Ends <- runner.ChildEnd{Code: 3}
				})
				result := p.run(t, cfg)
				if result.Outcome != runner.Exited || result.Exit != 3 || result.Release != c.release {
					t.Errorf("%+v", result)
				}
				if said := strings.Join(p.said, "\n"); !strings.Contains(said, c.says) || c.says == "" && said != "" {
					t.Errorf("it says %q, want %q", said, c.says)
				}
			})
		})
	}
}

// What the command leaves behind is stopped while the lock is still held and
// renewed, and killed when it does not end; only then the lock is given back.
//
// Mutation: finish as soon as the main process has ended, or stop renewing then.
func TestSweepsBeforeItReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := runner.Config{TTL: 3 * time.Second, Grace: time.Second}
		p := newPlay(&cfg, true)
		p.acts.Others = func() int {
			if p.killAt == 0 {
				return 2
			}
			return 0
		}
		after(2900*time.Millisecond, func() { p.acts.Ends <- runner.ChildEnd{Code: 5} })
		result := p.run(t, cfg)
		if result.Exit != 5 || result.Swept != 2 || !result.Killed || result.Release != runner.Released {
			t.Errorf("%+v", result)
		}
		if p.killAt < p.termAt+cfg.Grace || p.killAt >= p.endAtKill {
			t.Errorf("TERM at %s, KILL at %s, the lock held until %s", p.termAt, p.killAt, p.endAtKill)
		}
		if n := len(p.sent["renew"]); n != 3 {
			t.Errorf("renewed %d times, want every second until the end", n)
		}
	})
}

// Nothing that is out of bounds is sent.
//
// Clauses: K-2.5
// Mutation: take a check out of Prepare.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	good := runner.Config{Key: "k", Owner: "o", TTL: 30 * time.Second, Grace: 10 * time.Second, Command: []string{"sh"}, Env: os.Environ()}
	if _, err := runner.Prepare(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*runner.Config){
		"key is empty":                         func(c *runner.Config) { c.Key = "" },
		"owner is empty":                       func(c *runner.Config) { c.Owner = "" },
		"below the minimum":                    func(c *runner.Config) { c.TTL = time.Millisecond },
		"grace 10.000000001s is above a third": func(c *runner.Config) { c.Grace++ },
		"grace -1ns is negative":               func(c *runner.Config) { c.Grace = -1 },
		"wait -1ns is negative":                func(c *runner.Config) { c.Wait = -1 },
		"there is no command":                  func(c *runner.Config) { c.Command = nil },
		"session id \"…\" is malformed":        func(c *runner.Config) { c.Session = "a\x01" },
	} {
		cfg := good
		change(&cfg)
		if _, err := runner.Prepare(cfg); !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A command is looked up as a shell does: 127 where there is none, 126 where what
// is there cannot be executed, and a later folder of PATH makes good for that.
//
// Mutation: answer 127 for everything, or stop at the first folder.
func TestFind(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	write := func(dir, name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := write(first, "text", 0o600)
	write(first, "both", 0o600)
	both := write(second, "both", 0o700)
	tool := write(second, "tool", 0o700)
	env := []string{"PATH=/nowhere", "PATH=" + first + ":" + second}
	for name, want := range map[string]struct {
		path string
		exit int
	}{
		"tool": {tool, 0}, tool: {tool, 0}, "both": {both, 0}, "text": {"", 126}, text: {"", 126}, first: {"", 126},
		"none": {"", 127}, first + "/none": {"", 127}, tool + "/below": {"", 127}, "": {"", 127},
	} {
		path, err := runner.Find(name, env)
		exit := 0
		if start, isStart := errors.AsType[*runner.StartError](err); isStart {
			exit = start.Exit
		}
		if path != want.path || exit != want.exit {
			t.Errorf("%q: %q, exit %d, %v; want %q, %d", name, path, exit, err, want.path, want.exit)
		}
	}
}
