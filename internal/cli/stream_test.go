package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// watched is a store whose list changes with each look: held, renewed, and then
// gone, when the context ends by a signal.
func watched(cancel context.CancelCauseFunc) *fake {
	looks := 0
	return &fake{list: func(lockstore.Filter) ([]lockstore.Entry, error) {
		looks++
		first := entry(106)
		switch looks {
		case 1:
			return []lockstore.Entry{first}, nil
		case 2:
			first.ExpiresAt = at(2 * time.Minute)
			return []lockstore.Entry{first}, nil
		default:
			cancel(&app.SignalError{Signal: syscall.SIGTERM})
			return nil, nil
		}
	}}
}

// A pipe gets every change as JSON, a person calm lines, and a signal ends it.
//
// Mutation: print renewals as lines, or choose the format by -o alone.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		args    []string
		tty     bool
		changes []string
	}{
		{"pipe", nil, false, []string{`{"change":"held",`, `{"change":"renewed",`, `{"change":"gone",`}},
		{"pipe, json", []string{"-o", "json"}, false, []string{`{"change":"held",`, `{"change":"renewed",`, `{"change":"gone",`}},
		{"pipe, table", []string{"-o", "table"}, false, []string{"held     account:42  token 106  alice@a  40s left", "gone     account:42"}},
		{"terminal", []string{"--color", "never"}, true, []string{"held     account:42  token 106", "gone     account:42"}},
		{"terminal, wide", []string{"--color", "never", "-o", "wide"}, true, []string{"session given000…", "renewed  account:42", "gone     account:42"}},
		{"names", []string{"-o", "name"}, false, []string{"account:42", "account:42", "account:42"}},
		{"another key", []string{"account:4"}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var change func(*ui.Streams)
			if c.tty {
				change = terminal
			}
			r := runWith(t, ctx, watched(cancel), change, "", append([]string{"lock", "watch", "--interval", "100ms"}, c.args...)...)
			lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
			if r.out == "" {
				lines = nil
			}
			if r.exit != app.Terminated || len(lines) != len(c.changes) {
				t.Fatalf("exit %d, stdout %q, stderr %q", r.exit, r.out, r.err)
			}
			for i, want := range c.changes {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want %q", i, lines[i], want)
				}
			}
		})
	}
}

// A watch outlives the command's deadline, which each of its looks has to
// itself.
//
// Mutation: leave Endless out of runWatch, or Look out of eachLook.
func TestWatchHasADeadlinePerLook(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	runWith(t, ctx, watched(cancel), nil, "", "lock", "watch", "--interval", "2s", "--timeout", "3500ms").check(t, app.Terminated, "gone", "terminated")

	hanging := &hung{}
	streams, out, errOut := ui.Test("", map[string]string{"DLOCKCTL_LOCK_DSN": "host=/nowhere"})
	exit := runOn(t, streams, hanging, "lock", "watch", "--timeout", "50ms", "-o", "json")
	if exit != app.Unreachable || out.String() != "" || !strings.Contains(errOut.String(), `"code": "deadline"`) {
		t.Errorf("a look that hangs: exit %d, stderr %s", exit, errOut)
	}
}

// hung answers nothing before its context ends.
type hung struct{ fake }

func (h *hung) List(ctx context.Context, _ lockstore.Filter) ([]lockstore.Entry, error) {
	<-ctx.Done()
	return nil, &lockstore.UnreachableError{Doing: "list locks", Err: ctx.Err()}
}

// A reader that goes away ends a stream, and is no failure; a full disk is.
//
// Mutation: take EPIPE out of Stream.Item.
func TestStreamReaderGoesAway(t *testing.T) {
	t.Parallel()
	for cause, exit := range map[error]app.Exit{syscall.EPIPE: app.OK, syscall.ENOSPC: app.Unexpected} {
		store := &fake{
			audit: func(f lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
				if *f.After > 0 {
					return nil, nil
				}
				return []lockstore.Revocation{{ID: 1, Key: "k", RevokedAt: at(0)}}, nil
			},
			log: func(lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) { return nil, nil },
		}
		broken := func(s *ui.Streams) { s.Out = brokenPipe{cause} }
		r := runWith(t, t.Context(), store, broken, "", "audit", "export", "--follow")
		if r.exit != exit {
			t.Errorf("%v: exit %d, want %d; stderr %q", cause, r.exit, exit, r.err)
		}
	}
}

type brokenPipe struct{ err error }

func (b brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: b.err}
}

// What a token's story cannot say, it says, and why.
//
// Mutation: end explain at a source that knows nothing.
func TestExplainWithoutAJournal(t *testing.T) {
	t.Parallel()
	store := &fake{
		history: func(lockstore.Token) (lockstore.GrantRecord, error) {
			return lockstore.GrantRecord{}, fmt.Errorf("explain: %w", lockstore.ErrUnsupported)
		},
		list: func(lockstore.Filter) ([]lockstore.Entry, error) { return []lockstore.Entry{entry(106)}, nil },
		audit: func(lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
			return []lockstore.Revocation{{ID: 12, Key: "old", PrevToken: 90, PrevOwner: "bob", Operator: "op", Reason: "r", RevokedAt: at(0)}}, nil
		},
		log: func(lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
			return nil, lockstore.ErrUnsupported
		},
	}
	run(t, store, "token", "explain", "106", "-o", "json").check(t, app.OK, `"source": "lock_entry"`, "")
	r := run(t, store, "token", "explain", "90", "-o", "json")
	r.check(t, app.OK, `"ended": "revoked"`, "")
	if got := fields(t, r.out); got["key"] != "old" || got["owner"] != "bob" || !strings.Contains(r.out, "keeps no journal") {
		t.Errorf("story: %s", r.out)
	}
	run(t, store, "token", "explain", "7").check(t, app.NotFound, "", "nothing is known of token 7")
	store.history = func(lockstore.Token) (lockstore.GrantRecord, error) {
		return lockstore.GrantRecord{}, errors.New("cut")
	}
	run(t, store, "token", "explain", "7").check(t, app.Unexpected, "", "cut")
}
