package cli_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// waiting is a store on which another holds the key for some tries, and which
// gives heartbeats to whoever asks.
func waiting(tries int) *fake {
	store := &fake{
		show: func(string) (lockstore.Entry, error) { return lockstore.Entry{}, lockstore.ErrNotFound },
		heartbeat: func(id lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{ID: id, Remaining: 30 * time.Second, Sent: time.Now()}, nil
		},
	}
	store.acquire = func(_ context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
		if tries--; tries >= 0 {
			return lockstore.Grant{}, &lockstore.HeldError{Key: p.Key, Owner: "bob", Token: 7, Remaining: 12 * time.Second}
		}
		return lockstore.Grant{Key: p.Key, Token: 8, Owner: p.Owner, Session: p.Session, TTL: p.TTL, Sent: time.Now(), ExpiresAt: at(p.TTL)}, nil
	}
	return store
}

// A wait says once who holds the lock, and ends in the grant.
//
// Clauses: K-2.8
// Mutation: leave Waiting out, or call Acquire instead of Wait.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	store := waiting(2)
	r := run(t, store, "acquire", "k", "--wait", "30s", "-o", "name")
	r.check(t, app.OK, "8\n", `waiting for lock "k": held by "bob" with token 7, 12s left, unless it is renewed`)
	if strings.Count(r.err, "\n") != 1 || strings.Contains(store.called(), "end:") {
		t.Errorf("stderr %q, calls %q", r.err, store.called())
	}
	run(t, waiting(2), "acquire", "k", "--wait", "30s", "-o", "json").check(t, app.OK, `"token": 8`, "")
}

// A wait that ran out says so, and ends the session that was made for it.
//
// Mutation: return before notGranted when a wait fails.
func TestAcquireWaitRunsOut(t *testing.T) {
	t.Parallel()
	store := waiting(1 << 30)
	r := run(t, store, "acquire", "k", "--wait", "20ms", "-o", "json")
	r.check(t, app.Held, "", `"code": "wait_timeout"`)
	if !strings.HasSuffix(store.called(), " end:"+string(freshSession)) {
		t.Errorf("calls: %s", store.called())
	}
	details, _ := fields(t, r.err)["details"].(map[string]any)
	if by, _ := details["held_by"].(map[string]any); by["owner"] != "bob" || by["token"] != 7.0 {
		t.Errorf("details %v do not say who holds it", details)
	}
}

// The command's deadline counts on top of the wait.
//
// Mutation: use Run instead of RunWaiting.
func TestDeadlineCountsOnTopOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run(t, waiting(1<<30), "acquire", "k", "--wait", "300ms", "--timeout", "50ms").check(t, app.Held, "", "waited ")
		// One without an end does not overflow into none at all.
		run(t, waiting(1), "acquire", "k", "--wait", "2562047h", "-o", "name").check(t, app.OK, "8\n", "waiting")
	})
}

// A signal while waiting ends it at once, with its own code and nothing held.
//
// Mutation: use ctx itself in endFresh.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	for signal, exit := range map[syscall.Signal]app.Exit{syscall.SIGINT: app.Interrupted, syscall.SIGTERM: app.Terminated} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		store := waiting(1 << 30)
		held := store.acquire
		store.acquire = func(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
			defer cancel(&app.SignalError{Signal: signal})
			return held(ctx, p)
		}
		runWith(t, ctx, store, nil, "", "acquire", "k", "--wait", "1h", "-o", "json").check(t, exit, "", `"exit_code": `)
		if !strings.HasSuffix(store.called(), " end:"+string(freshSession)) {
			t.Errorf("calls: %s", store.called())
		}
	}
}

// A given session is kept alive from the beginning, is not ended, and after a
// long wait lives as long as the lease: what may be trusted is the smaller.
//
// Clauses: K-2.10
// Mutation: take the heartbeat after the wait out of try.
func TestWaitKeepsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := waiting(2)
		beats := 0
		store.heartbeat = func(id lockstore.SessionID) (lockstore.Session, error) {
			beats++
			return lockstore.Session{ID: id, Remaining: 300 * time.Millisecond, Sent: time.Now()}, nil
		}
		r := run(t, store, "acquire", "k", "--session", string(givenSession), "--ttl", "300ms", "--wait", "30s", "-o", "json")
		r.check(t, app.OK, `"token": 8`, "")
		if trusted, _ := fields(t, r.out)["trusted_ms"].(float64); beats < 2 || trusted < 200 {
			t.Errorf("trusted_ms = %v after %d heartbeats", trusted, beats)
		}
		if strings.Contains(store.called(), "end:") {
			t.Errorf("ended a session that it did not make: %s", store.called())
		}
		lost := waiting(0)
		lost.heartbeat = func(lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{}, lockstore.ErrSessionLost
		}
		run(t, lost, "acquire", "k", "--session", string(givenSession), "--wait", "1s").check(t, app.Lost, "", "session lost")
	})
}

// The session comes from the flag, else the environment, else it is fresh.
//
// Clauses: K-2.12
// Mutation: read the flag alone in runAcquire.
func TestSessionFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DLOCKCTL_SESSION": string(givenSession)}
	for flag, want := range map[string]lockstore.SessionID{"": givenSession, "auto": freshSession, "other000-1111-4222-8333-444455556666": "other000-1111-4222-8333-444455556666"} {
		store := destructible()
		args := []string{"acquire", "k", "-o", "json"}
		if flag != "" {
			args = append(args, "--session", flag)
		}
		r := inProfiles(t, store, env, false, "", args...)
		if got := fields(t, r.out)["session_id"]; r.exit != app.OK || got != string(want) {
			t.Errorf("--session %q: exit %d, session %v, want %s", flag, r.exit, got, want)
		}
	}
	store := destructible()
	store.release = func(token lockstore.Token) (lockstore.Release, error) {
		return lockstore.Release{Key: "k", Token: token}, nil
	}
	// release ends no session that it was not told to.
	if r := inProfiles(t, store, env, false, "", "release", "k", "--token", "9"); r.exit != app.OK || strings.Contains(store.called(), "end:") {
		t.Errorf("release: exit %d, calls %s", r.exit, store.called())
	}
	if r := inProfiles(t, store, env, false, "", "release", "k", "--token", "9", "--end-session"); r.exit != app.OK || !strings.Contains(store.called(), "end:"+string(givenSession)) {
		t.Errorf("release --end-session: exit %d, calls %s", r.exit, store.called())
	}
	run(t, nil, "release", "k", "--token", "9", "--end-session").check(t, app.Usage, "", "no session is named")
	run(t, nil, "session", "end").check(t, app.Usage, "", "DLOCKCTL_SESSION")
}

// The same name in other bytes is another key, and that is said.
//
// Mutation: take warnOfTwin out of runAcquire.
func TestUnicodeTwins(t *testing.T) {
	t.Parallel()
	composed, decomposed := "caf\u00e9", "cafe\u0301"
	store := &fake{show: func(key string) (lockstore.Entry, error) {
		if key != composed {
			return lockstore.Entry{}, lockstore.ErrNotFound
		}
		return lockstore.Entry{Key: key, Owner: "bob", Token: 7}, nil
	}}
	run(t, store, "acquire", decomposed, "-o", "name").check(t, app.OK, "106\n", `warning: "caf\u00e9", which looks the same as "cafe\u0301", is another key, and is held by "bob" with token 7`)
	run(t, store, "lock", "show", decomposed, "-o", "json").check(t, app.NotFound, "", `is another key`)
	run(t, store, "lock", "show", "cafe").check(t, app.NotFound, "", "hint: see what there is: dlockctl lock list\n")
	plain := &fake{}
	run(t, plain, "acquire", "cafe", "-o", "name").check(t, app.OK, "106\n", "")
	if strings.Contains(plain.called(), "show") {
		t.Errorf("looked for a twin of plain ASCII: %s", plain.called())
	}
}
