package top_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// busy is a store of one lock whose revokes are answered when the test does, and which has
// something to say meanwhile.
type busy struct {
	lockstore.Store

	app    *app.App
	asked  chan string
	answer chan lockstore.LockOutcome
}

func (b *busy) Close() {}

func (b *busy) List(context.Context, lockstore.Filter) ([]lockstore.Entry, error) {
	return []lockstore.Entry{{Key: "account:1", Owner: "alice", Token: 7, ExpiresAt: lockstore.Time{Infinite: true}}}, nil
}

func (b *busy) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	b.asked <- fmt.Sprintf("%s revokes %s, token %s: %s", params.Operator, params.Key, params.Token, params.Reason)
	select {
	case outcome := <-b.answer:
		b.app.Warn("in the middle of the screen")
		return outcome, nil
	case <-ctx.Done():
		b.app.Warn("in the middle of the screen")
		return lockstore.LockOutcome{}, &lockstore.UnknownOutcomeError{Doing: "revoke lock", Err: context.Cause(ctx)}
	}
}

// reader reads a terminal, and keeps what it shows.
type reader struct {
	mu    sync.Mutex
	shown bytes.Buffer
}

func (s *screen) read() *reader {
	r := &reader{}
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := s.keys.Read(buf)
			r.mu.Lock()
			r.shown.Write(buf[:n])
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return r
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown.String()
}

// shows waits until the terminal has shown something.
func (s *screen) shows(r *reader, what string) {
	s.t.Helper()
	s.until("it shows "+what, func(bool) bool { return strings.Contains(r.text(), what) })
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// agree has the first lock revoked, as far as that goes without an answer.
func (s *screen) agree(r *reader) {
	s.t.Helper()
	s.shows(r, "account:1")
	s.press("rhangs\r")
	s.shows(r, "y/N")
	s.press("y")
}

// Who leaves before the answer to a revoke, or right after it, is told what became of it once the terminal was given back:
// done with exit 0, or unknown where a signal does not wait for it.
//
// Clauses: K-2.9
// Mutation: revoke in the context of the looks; leave outlast or end out of run; speak before outlast; go on at q.
func TestQuittingOverARevoke(t *testing.T) {
	t.Parallel()
	const waits, unknown = "waiting for the answer to the revoke of account:1", "has a row for it"
	for name, tc := range map[string]struct {
		does func(*screen, *reader, *busy)
		exit app.Exit
		want string
	}{
		"quits":             {func(s *screen, r *reader, b *busy) { s.press("q"); s.shows(r, waits); b.revokes() }, app.OK, "revoked account:1 from alice, audit row 4"},
		"quits after it":    {func(s *screen, r *reader, b *busy) { b.revokes(); s.shows(r, "audit row 4"); s.press("q") }, app.OK, "revoked account:1 from alice, audit row 4"},
		"quits and signals": {func(s *screen, r *reader, _ *busy) { s.press("q"); s.shows(r, waits); s.signal() }, app.Unknown, unknown},
		"signals":           {func(s *screen, _ *reader, _ *busy) { s.signal() }, app.Unknown, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &busy{asked: make(chan string, 1), answer: make(chan lockstore.LockOutcome)}
			s := newScreen(t, func(a *app.App) app.OpenStore { b.app = a; return always(b) })
			r := s.read()
			s.agree(r)
			if asked := <-b.asked; asked != "ops revokes account:1, token 7: hangs" {
				t.Errorf("asked that %s", asked)
			}
			select {
			case exit := <-s.exit:
				t.Fatalf("exit %d before it was left", exit)
			default:
			}
			tc.does(s, r, b)
			if exit := <-s.exit; exit != tc.exit {
				t.Errorf("exit %d, want %d", exit, tc.exit)
			}
			s.until("it tells "+tc.want, func(bool) bool { return strings.Contains(r.after(), tc.want) })
			if strings.Contains(r.text(), "in the middle") {
				t.Errorf("the screen was spoken into: %q", r.after())
			}
		})
	}
}

// The deadline of a revoke counts from its beginning: a database that cannot be reached holds nobody up who leaves.
//
// Mutation: let it begin when the store is open, or leave Late out of source.revoke.
func TestQuittingOverARevokeThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	s := newScreen(t, func(*app.App) app.OpenStore {
		return func(ctx context.Context, purpose app.Purpose) (lockstore.Store, error) {
			if purpose == app.Reading {
				return &busy{}, nil
			}
			<-ctx.Done()
			return nil, &lockstore.UnreachableError{Doing: "open lockdb", Err: ctx.Err()}
		}
	}, "--timeout", "3s")
	r := s.read()
	s.agree(r)
	s.press("q")
	if exit := <-s.exit; exit != app.Unreachable {
		t.Errorf("exit %d", exit)
	}
	const want = `revoke lock "account:1": gave up after 3s: open lockdb`
	s.until("it tells "+want, func(bool) bool { return strings.Contains(r.after(), want) })
}

// after is what was shown after the screen.
func (r *reader) after() string {
	_, after, _ := strings.Cut(r.text(), "\x1b[?1049l")
	return after
}

func (s *screen) signal() { s.stop(&app.SignalError{Signal: syscall.SIGTERM}) }

// revokes answers that it was done.
func (b *busy) revokes() {
	b.answer <- lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: "account:1", Owner: "alice", AuditID: 4}
}
