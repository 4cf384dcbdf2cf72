package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Each acquire has a session of its own, printed in full this once.
//
// Clauses: K-2.2, K-2.10
// Mutation: pass opts.session on as it is in sessionFor.
func TestAcquireMakesASession(t *testing.T) {
	t.Parallel()
	store := &fake{}
	r := run(t, store, "acquire", "account:42", "--owner", "alice@a", "--ttl", "1m", "-o", "json")
	r.check(t, app.OK, "\n", "")
	if got := store.called(); got != "create acquire:"+string(freshSession) {
		t.Errorf("calls: %s", got)
	}
	if store.purpose != postgres.Granting {
		t.Errorf("opened for %v", store.purpose)
	}
	got := fields(t, r.out)
	trusted, _ := got["trusted_ms"].(float64)
	if trusted <= 50_000 || trusted > 60_000 {
		t.Errorf("trusted_ms = %v, want a little below the ttl", got["trusted_ms"])
	}
	delete(got, "trusted_ms")
	want := map[string]any{
		"key": "account:42", "token": 106.0, "token_str": "106", "owner": "alice@a", "session_id": string(freshSession),
		"acquired_at": "2026-11-29T12:00:00.000000Z", "expires_at": "2026-11-29T12:01:00.000000Z", "ttl_ms": 60000.0,
		"release_command": "dlockctl release account:42 --token 106 --session " + string(freshSession),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who is refused by a lock of its own is told how to go on with it.
//
// Mutation: take sameOwner out of runAcquire.
func TestAcquireHeldByTheSameOwner(t *testing.T) {
	t.Parallel()
	for owner, more := range map[string]string{
		"alice@a": "the same owner holds it under another session: dlockctl renew k --token 7 extends it; ", "bob": "",
	} {
		for _, wait := range []string{"0s", "20ms"} {
			store := waiting(1 << 30)
			store.acquire = func(context.Context, lockstore.AcquireParams) (lockstore.Grant, error) {
				return lockstore.Grant{}, &lockstore.HeldError{Key: "k", Owner: owner, Token: 7, Remaining: 12 * time.Second}
			}
			r := run(t, store, "acquire", "k", "--owner", "alice@a", "--wait", wait, "-o", "json")
			hint, _ := fields(t, r.err)["hint"].(string)
			if r.exit != app.Held || !strings.HasPrefix(hint, more) || strings.Contains(hint, "renew k") != (more != "") {
				t.Errorf("held by %s, waited %s: exit %d, hint %q", owner, wait, r.exit, hint)
			}
		}
	}
}

// What the caller may trust ends with the session, when that ends first.
//
// Clauses: K-2.10
// Mutation: leave the session out of viewGrant's min.
func TestAcquireTrustsTheSmallerPromise(t *testing.T) {
	t.Parallel()
	store := &fake{session: func(id lockstore.SessionID) (lockstore.Session, error) {
		return lockstore.Session{ID: id, Owner: "alice@a", Remaining: 3 * time.Second}, nil
	}}
	r := run(t, store, "acquire", "k", "--session", string(givenSession), "--ttl", "1m", "-o", "json")
	r.check(t, app.OK, "\n", "")
	if got := store.called(); got != "session:"+string(givenSession)+" acquire:"+string(givenSession) {
		t.Errorf("calls: %s", got)
	}
	if trusted, _ := fields(t, r.out)["trusted_ms"].(float64); trusted <= 0 || trusted > 3000 {
		t.Errorf("trusted_ms = %v, want at most the session's 3 s", trusted)
	}
}

// A try that is refused leaves no session behind; a given one is not touched.
//
// Mutation: return early from notGranted.
func TestRefusedAcquireEndsItsSession(t *testing.T) {
	t.Parallel()
	held := func(context.Context, lockstore.AcquireParams) (lockstore.Grant, error) {
		return lockstore.Grant{}, &lockstore.HeldError{Key: "k", Owner: "bob\x1b[31m", Token: 7, Remaining: 12 * time.Second}
	}
	store := &fake{acquire: held}
	r := run(t, store, "acquire", "k")
	r.check(t, app.Held, "", "hint: the lease has 12s left")
	if strings.Contains(r.err, "\x1b") {
		t.Errorf("the holder's name drives the terminal: %q", r.err)
	}
	if got := store.called(); !strings.HasSuffix(got, " end:"+string(freshSession)) {
		t.Errorf("calls: %s", got)
	}
	store = &fake{acquire: held, session: func(id lockstore.SessionID) (lockstore.Session, error) { return lockstore.Session{ID: id}, nil }}
	run(t, store, "acquire", "k", "--session", string(givenSession)).check(t, app.Held, "", "held by")
	if got := store.called(); strings.Contains(got, "end:") {
		t.Errorf("ended a session that it did not make: %s", got)
	}
}

// An unknown outcome is said to be unknown, and the session is kept, since a
// second try under it re-enters.
//
// Clauses: K-2.9
// Mutation: end the fresh session whatever the error was.
func TestUnknownAcquireKeepsItsSession(t *testing.T) {
	t.Parallel()
	store := &fake{acquire: func(context.Context, lockstore.AcquireParams) (lockstore.Grant, error) {
		return lockstore.Grant{}, &lockstore.UnknownOutcomeError{Doing: `acquire lock "k"`, Err: errors.New("connection reset")}
	}}
	r := run(t, store, "acquire", "k", "--owner", "alice@a", "-o", "json")
	r.check(t, app.Unknown, "", "outcome_unknown")
	if got := store.called(); strings.Contains(got, "end:") {
		t.Errorf("calls: %s", got)
	}
	details, _ := fields(t, r.err)["details"].(map[string]any)
	if want := "dlockctl acquire k --owner alice@a --session " + string(freshSession) + " --ttl 30s"; details["retry_command"] != want {
		t.Errorf("retry_command = %v, want %s", details["retry_command"], want)
	}
}

// A signal cuts the try off: the session is ended although the command's
// context is, which settles that nothing is held.
//
// Mutation: use ctx itself in endFresh.
func TestInterruptedAcquire(t *testing.T) {
	t.Parallel()
	for signal, exit := range map[syscall.Signal]app.Exit{syscall.SIGINT: app.Interrupted, syscall.SIGTERM: app.Terminated} {
		store := &fake{}
		interrupted(t, store, signal).check(t, exit, "", "error: ")
		if got := store.called(); !strings.HasSuffix(got, " end:"+string(freshSession)) {
			t.Errorf("calls: %s", got)
		}
		// Where even that fails, the outcome stays unknown.
		store.end = func(context.Context, lockstore.SessionID) (int, error) { return 0, errors.New("cut") }
		interrupted(t, store, signal).check(t, app.Unknown, "", "it may have been granted")
	}
}

// interrupted runs an acquire that a signal cuts off after it was sent.
func interrupted(t *testing.T, store *fake, signal syscall.Signal) result {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	store.acquire = func(ctx context.Context, _ lockstore.AcquireParams) (lockstore.Grant, error) {
		cancel(&app.SignalError{Signal: signal})
		<-ctx.Done()
		return lockstore.Grant{}, &lockstore.UnknownOutcomeError{Doing: "acquire", Err: ctx.Err()}
	}
	return runWith(t, ctx, store, nil, "", "acquire", "k")
}

// A command that hangs ends at its deadline with exit 8, not in a hang.
//
// Mutation: take the timer out of RunWithin.
func TestDeadline(t *testing.T) {
	t.Parallel()
	store := &fake{acquire: func(ctx context.Context, _ lockstore.AcquireParams) (lockstore.Grant, error) {
		<-ctx.Done()
		return lockstore.Grant{}, &lockstore.UnreachableError{Doing: "acquire lock", Err: ctx.Err()}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := runWith(t, ctx, store, nil, "", "acquire", "k", "--timeout", "20ms", "-o", "json")
	r.check(t, app.Unreachable, "", "gave up after 20ms: acquire lock")
	if got := fields(t, r.err)["code"]; got != "deadline" {
		t.Errorf("code = %v", got)
	}
}

// renew keeps the session of that very grant alive first, then the lease.
//
// Clauses: K-2.2, K-2.10
// Mutation: call Heartbeat after Renew, or not at all.
func TestRenewHeartbeatsTheSessionFirst(t *testing.T) {
	t.Parallel()
	store := &fake{
		show: func(string) (lockstore.Entry, error) { return entry(106), nil },
		heartbeat: func(id lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{ID: id, Remaining: time.Minute, Sent: time.Now()}, nil
		},
		renew: func(token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
			return lockstore.Grant{Key: "account:42", Token: token, TTL: ttl, Sent: time.Now(), ExpiresAt: at(ttl)}, nil
		},
	}
	r := run(t, store, "renew", "account:42", "--token", "106", "--ttl", "1m", "-o", "json")
	r.check(t, app.OK, "\n", "")
	if got, want := store.called(), "show:account:42 heartbeat:"+string(givenSession)+" renew:106"; got != want {
		t.Errorf("calls: %s, want %s", got, want)
	}
	if got := fields(t, r.out); got["session_id"] != givenSession.Masked() || got["release_command"] != nil {
		t.Errorf("shows the session, or a command without it: %v", got)
	}
	run(t, store, "renew", "account:42", "--token", "106", "--session", string(freshSession)).
		check(t, app.Usage, "", "does not hang on session fresh000…")
}

// Clauses: K-2.6
// Mutation: heartbeat whatever session stands on the key.
func TestRenewOfALostGrantKeepsNothingAlive(t *testing.T) {
	t.Parallel()
	lapsed := entry(106)
	lapsed.Expired = true
	for name, show := range map[string]func(string) (lockstore.Entry, error){
		"gone":       func(string) (lockstore.Entry, error) { return lockstore.Entry{}, lockstore.ErrNotFound },
		"moved on":   func(string) (lockstore.Entry, error) { return entry(107), nil },
		"has lapsed": func(string) (lockstore.Entry, error) { return lapsed, nil },
	} {
		store := &fake{show: show, renew: func(lockstore.Token, time.Duration) (lockstore.Grant, error) {
			return lockstore.Grant{}, fmt.Errorf("renew: %w", lockstore.ErrLockLost)
		}}
		run(t, store, "renew", "account:42", "--token", "106").check(t, app.Lost, "", "stop the work this lock protects")
		if got := store.called(); strings.Contains(got, "heartbeat") || !strings.HasSuffix(got, "renew:106") {
			t.Errorf("%s: calls: %s", name, got)
		}
	}
}

// A stale release is a success with a visible note, or exit 5 when asked.
//
// Clauses: K-2.6
// Mutation: take the warning, or the failIfStale case, out of staleness.
func TestRelease(t *testing.T) {
	t.Parallel()
	released := func(token lockstore.Token) (lockstore.Release, error) {
		return lockstore.Release{Key: "k", Token: token}, nil
	}
	stale := func(token lockstore.Token) (lockstore.Release, error) {
		return lockstore.Release{Key: "k", Token: token, Stale: true}, nil
	}
	run(t, &fake{release: released}, "release", "k", "--token", "9").check(t, app.OK, "RELEASED", "")
	run(t, &fake{release: stale}, "release", "k", "--token", "9").
		check(t, app.OK, "STALE", "warning: token 9 does not hold lock \"k\"; nothing was released\nhint: it lapsed, was taken, or the key or the token is mistyped: dlockctl token explain 9\n")
	r := run(t, &fake{release: stale}, "release", "k", "--token", "9", "--fail-if-stale", "-o", "json")
	r.check(t, app.Lost, `"stale": true`, `"code": "stale"`)
	for _, want := range []string{`token 9 does not hold lock \"k\"; nothing was released`, "dlockctl token explain 9"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr %q does not hold %q", r.err, want)
		}
	}
	if got := fields(t, r.out); got["session_ended"] != nil {
		t.Errorf("speaks of a session it was not given: %v", got)
	}
}

// The session goes with the lock when nothing else hangs on it, and only then.
//
// Clauses: K-2.2
// Mutation: take the Locks > 0 test out of endIdle.
func TestReleaseEndsAnIdleSession(t *testing.T) {
	t.Parallel()
	for locks, ended := range map[int]bool{0: true, 1: false} {
		store := &fake{
			release: func(token lockstore.Token) (lockstore.Release, error) {
				return lockstore.Release{Key: "k", Token: token}, nil
			},
			session: func(id lockstore.SessionID) (lockstore.Session, error) {
				return lockstore.Session{ID: id, Locks: locks}, nil
			},
		}
		r := run(t, store, "release", "k", "--token", "9", "--session", string(givenSession), "-o", "json")
		r.check(t, app.OK, "\n", "")
		if got := fields(t, r.out)["session_ended"]; got != ended || strings.Contains(store.called(), "end:") != ended {
			t.Errorf("%d locks left: session_ended %v, calls %s", locks, got, store.called())
		}
	}
	// A session that cannot be ended does not make the release fail.
	store := &fake{
		release: func(token lockstore.Token) (lockstore.Release, error) {
			return lockstore.Release{Key: "k", Token: token}, nil
		},
		session: func(lockstore.SessionID) (lockstore.Session, error) { return lockstore.Session{}, errors.New("cut") },
	}
	run(t, store, "release", "k", "--token", "9", "--session", string(givenSession)).check(t, app.OK, "RELEASED", "left to lapse")
}

// Session ids are masked in lists, in every format, unless asked for.
//
// Clauses: K-2.12
// Mutation: pass true to viewEntry or to the session's view.
func TestSessionIDsAreMasked(t *testing.T) {
	t.Parallel()
	store := &fake{
		show: func(string) (lockstore.Entry, error) { return entry(106), nil },
		list: func(lockstore.Filter) ([]lockstore.Entry, error) { return []lockstore.Entry{entry(106)}, nil },
		sessions: func(lockstore.SessionFilter) ([]lockstore.Session, error) {
			return []lockstore.Session{{ID: givenSession, Owner: "alice@a", CreatedAt: at(0), ExpiresAt: at(1)}}, nil
		},
		session: func(id lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{ID: id, Owner: "alice@a"}, nil
		},
		heartbeat: func(id lockstore.SessionID) (lockstore.Session, error) { return lockstore.Session{ID: id}, nil },
		reap:      func(int) (lockstore.Reaped, error) { return lockstore.Reaped{}, nil },
	}
	for _, format := range ui.Formats() {
		for args, full := range map[string]bool{
			"lock list": false, "lock list --show-session": format != "table" && format != "name",
			"lock show account:42": false, "session list": false, "session list --show-session": true,
			"session show " + string(givenSession): false, "session heartbeat " + string(givenSession): false,
			"session end --yes " + string(givenSession): false,
		} {
			r := run(t, store, append(strings.Fields(args), "-o", format)...)
			r.check(t, app.OK, "\n", "")
			if got := strings.Contains(r.out, string(givenSession)); got != full {
				t.Errorf("%s -o %s: full id %v, want %v: %s", args, format, got, full, r.out)
			}
		}
	}
}
