package top //nolint:testpackage // the model is nobody else's

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// slow answers a revoke when the test does. One that is called off has lost its answer.
type slow struct {
	counting

	answer chan lockstore.LockOutcome
	asked  []string
}

func newSlow() *slow { return &slow{answer: make(chan lockstore.LockOutcome)} }

func (s *slow) revoke(ctx context.Context, e lockstore.Entry, _ string) (lockstore.LockOutcome, error) {
	s.asked = append(s.asked, e.Key)
	select {
	case outcome := <-s.answer:
		return outcome, nil
	case <-ctx.Done():
		return lockstore.LockOutcome{}, lost(e.Key, context.Cause(ctx))
	}
}

func lost(key string, why error) error {
	return fmt.Errorf("%w: %w", why, &lockstore.UnknownOutcomeError{Doing: fmt.Sprintf("revoke lock %q", key), Err: errors.New("no answer")})
}

// agree has the first lock revoked, as far as that goes without an answer.
func (l *line) agree() *revocation {
	l.t.Helper()
	l.wait(2 * time.Second)
	l.press("rhangs\r")
	l.wait(time.Second)
	l.press("y")
	l.wait(time.Second)
	if l.model.revoking == nil {
		l.t.Fatal("nothing is being revoked")
	}
	return l.model.revoking
}

// Leaving calls no revoke off: the screen is given back at once, and its answer awaited, of which the person is told.
//
// Clauses: K-2.9
// Mutation: revoke in the context of the looks, or return from outlast at once.
func TestLeavingOverARevoke(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"q", "\x03"} {
		synctest.Test(t, func(t *testing.T) {
			f := newSlow()
			l := connect(t, f)
			r := l.agree()
			l.press(key)
			l.restores(key)
			var said []string
			awaited := make(chan struct{})
			go func() {
				defer close(awaited)
				r.outlast(l.model.outer, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
			}()
			l.wait(time.Minute)
			select {
			case <-awaited:
				t.Fatalf("%q: it waits for no answer, but has %+v, %v", key, r.outcome, r.err)
			default:
			}
			f.answer <- lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: "account:0"}
			<-awaited
			if r.err != nil || r.outcome.Outcome != lockstore.Revoked {
				t.Errorf("%q: %+v, %v", key, r.outcome, r.err)
			}
			if text := strings.Join(said, "\n"); len(said) != 1 || !strings.Contains(text, "the revoke of account:0; Ctrl-C gives up on it") {
				t.Errorf("%q: the person was told %q", key, said)
			}
		})
	}
}

// A signal calls the revoke off, also where the screen was left before, and nobody is told to wait any more.
//
// Clauses: K-2.9
// Mutation: revoke in a context that does not end.
func TestSignalOverARevoke(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "q"} {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t, newSlow())
			r := l.agree()
			if key != "" {
				l.press(key)
				l.restores(key)
			}
			l.stop(&app.SignalError{Signal: syscall.SIGTERM})
			if key == "" {
				l.restores("signal")
			}
			r.outlast(l.model.outer, func(format string, _ ...any) { t.Errorf("told %q", format) })
			if unknown := (*lockstore.UnknownOutcomeError)(nil); !errors.As(r.err, &unknown) {
				t.Errorf("after %q and a signal: %+v, %v, want an unknown outcome", key, r.outcome, r.err)
			}
		})
	}
}

// One revoke waits for the other, and until its outcome has been drawn it is there to be told at the end; after the
// next key it is not, for the person has seen it.
//
// Mutation: forget it at each key, or never; or take it for told where it was not drawn.
func TestOneRevokeAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newSlow()
		l := connect(t, f)
		r := l.agree()
		l.press("jr")
		if shown := l.wait(time.Second); l.model.mode != watching || strings.Contains(shown, "reason") || l.model.notice != "revoking account:0…" {
			t.Errorf("while it waits, r leads to mode %d, and it says %q", l.model.mode, l.model.notice)
		}
		l.stand(true)
		l.wait(10 * time.Second) // a frame is on its way now, and the next has to wait
		f.answer <- lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: "account:0"}
		l.wait(time.Second)
		l.press("k")
		l.wait(time.Second)
		if l.model.revoking != r {
			t.Error("a key took away what nobody has seen")
		}
		l.stand(false)
		if shown := l.wait(time.Second); l.model.revoking != r || !strings.Contains(shown, "nobody holds account:0 any more") {
			t.Errorf("%+v is left to be told, and it shows %q", l.model.revoking, shown)
		}
		l.press("k")
		l.wait(time.Second)
		if l.model.revoking != nil || l.model.notice != "" {
			t.Errorf("after another key: %+v is left to be told, and it says %q", l.model.revoking, l.model.notice)
		}
		l.agree()
		if fmt.Sprint(f.asked) != "[account:0 account:0]" {
			t.Errorf("revoked %q", f.asked)
		}
	})
}

// What became of a revoke that the screen was left over is told on stderr, with the exit code of the verb: an answer that was lost is
// unknown, and the hint says how to find out.
//
// Clauses: K-2.9
// Mutation: return the error as it is, nil for an outcome that is not REVOKED, or exit 8 for a lost answer.
func TestRevokeAsItEnds(t *testing.T) {
	t.Parallel()
	unreachable := &lockstore.UnreachableError{Doing: `revoke lock "account:1"`, Err: errors.New("refused")}
	for name, tc := range map[string]struct {
		outcome lockstore.LockOutcome
		err     error
		exit    app.Exit
		want    []string
	}{
		"revoked":  {lockstore.LockOutcome{Outcome: lockstore.Revoked, Owner: "zoe", AuditID: 4}, nil, app.OK, []string{"revoked account:1 from zoe, audit row 4"}},
		"moved":    {lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Owner: "bob", Token: 9}, nil, app.Refused, []string{"nothing was revoked", "moved on to bob with token 9"}},
		"free":     {lockstore.LockOutcome{Outcome: lockstore.NotHeld}, nil, app.NotFound, []string{"nothing was revoked: nobody holds account:1"}},
		"failed":   {lockstore.LockOutcome{}, unreachable, app.Unreachable, []string{`error: revoke lock "account:1": refused`}},
		"deadline": {lockstore.LockOutcome{}, lost("account:1", &app.DeadlineError{After: time.Second}), app.Unknown, []string{"outcome unknown", "--key=account:1 has a row", "lock show"}},
		"signal":   {lockstore.LockOutcome{}, lost("account:1", &app.SignalError{Signal: syscall.SIGINT}), app.Unknown, []string{"outcome unknown", "--key=account:1 has a row", "lock show"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams, out, errOut := ui.Test("", nil)
			a := app.New(streams, nil)
			tc.outcome.Key = "account:1"
			r := &revocation{target: lockstore.Entry{Key: "account:1"}, outcome: tc.outcome, err: tc.err}
			exit := app.OK
			if err := r.end(a); err != nil {
				exit = a.Report(err)
			}
			if exit != tc.exit || out.String() != "" {
				t.Errorf("exit %d, want %d; stdout %q", exit, tc.exit, out)
			}
			for _, want := range tc.want {
				if !strings.Contains(errOut.String(), want) {
					t.Errorf("no %q in %q", want, errOut)
				}
			}
		})
	}
	var none *revocation
	none.outlast(t.Context(), t.Errorf)
	if err := none.end(nil); err != nil {
		t.Errorf("where nothing is being revoked: %v", err)
	}
}
