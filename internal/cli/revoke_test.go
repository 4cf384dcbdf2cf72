package cli_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// revocable is a store on which account:42 is held under a token, and a revoke
// of that very token succeeds.
func revocable(token lockstore.Token) *fake {
	return &fake{
		show: func(string) (lockstore.Entry, error) { return entry(token), nil },
		revoke: func(p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
			o := lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: p.Key, Owner: "alice@a", Token: token, Presented: p.Token}
			if p.Token == token {
				o.Outcome, o.AuditID = lockstore.Revoked, 12
			}
			return o, nil
		},
	}
}

// Without a terminal nothing is revoked that was not confirmed and named.
//
// Mutation: take any case out of saidAloud.
func TestRevokeGuards(t *testing.T) {
	t.Parallel()
	base := []string{"revoke", "account:42", "--reason", "ticket 7"}
	for _, c := range []struct {
		name  string
		args  []string
		tty   bool
		typed string
		exit  app.Exit
		err   string
		calls string
	}{
		{"no terminal, no flags", nil, false, "y\n", app.Refused, "--yes --token N, or --yes --any-token", ""},
		{"no terminal, token but no yes", []string{"--token", "106"}, false, "y\n", app.Refused, "no terminal", ""},
		{"no terminal, yes but no token", []string{"--yes"}, false, "", app.Usage, "--yes needs --token N", ""},
		{"terminal, yes but no token", []string{"--yes"}, true, "", app.Usage, "--yes needs --token N", ""},
		{"named", []string{"--yes", "--token", "106"}, false, "", app.OK, "note: ", "show:account:42 revoke:106"},
		{"whichever", []string{"--yes", "--any-token"}, false, "", app.OK, "note: ", "show:account:42 revoke:106"},
		{"another was named", []string{"--yes", "--token", "105"}, false, "", app.Refused, "with token 106, not 105", "show:account:42"},
		{"asked, yes", nil, true, "yes\n", app.OK, `held by "alice@a" with token 106, acquired 20s ago, 40s left`, "show:account:42 revoke:106"},
		{"asked, no", nil, true, "n\n", app.Refused, "not confirmed; nothing was changed", "show:account:42"},
		{"asked, nothing", nil, true, "", app.Refused, "not confirmed", "show:account:42"},
		{"dry run", []string{"--dry-run"}, false, "", app.OK, "", "show:account:42"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := revocable(106)
			var change func(*ui.Streams)
			if c.tty {
				change = terminal
			}
			r := runWith(t, t.Context(), store, change, c.typed, append(base, c.args...)...)
			if r.exit != c.exit || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, want %d; stderr %q does not hold %q", r.exit, c.exit, r.err, c.err)
			}
			if got := store.called(); got != c.calls {
				t.Errorf("calls: %q, want %q", got, c.calls)
			}
		})
	}
}

// Clauses: K-3.1, K-3.3
// Mutation: swap exit codes in finish, or leave the operator out of the params.
func TestRevokeOutcomes(t *testing.T) {
	t.Parallel()
	yes := []string{"revoke", "account:42", "--reason", "ticket 7", "--yes", "--token", "106", "-o", "json"}
	var seen lockstore.RevokeParams
	for _, c := range []struct {
		outcome lockstore.LockOutcome
		exit    app.Exit
		code    string
	}{
		{lockstore.LockOutcome{Outcome: lockstore.Revoked, AuditID: 12, Owner: "alice@a", Token: 106, Presented: 106}, app.OK, ""},
		{lockstore.LockOutcome{Outcome: lockstore.NotHeld, Presented: 106}, app.NotFound, "not_held"},
		{lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Owner: "bob@b", Token: 107, Presented: 106}, app.Refused, "token_moved"},
		{lockstore.LockOutcome{Outcome: "NEW"}, app.Unexpected, "unexpected"},
	} {
		store := revocable(106)
		store.revoke = func(p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
			seen, c.outcome.Key = p, p.Key
			return c.outcome, nil
		}
		r := run(t, store, yes...)
		if r.exit != c.exit || fields(t, r.out)["outcome"] != string(c.outcome.Outcome) {
			t.Errorf("%s: exit %d, want %d; stdout %s", c.outcome.Outcome, r.exit, c.exit, r.out)
		}
		if c.code != "" && fields(t, r.err)["code"] != c.code {
			t.Errorf("%s: stderr %s", c.outcome.Outcome, r.err)
		}
		if store.purpose != postgres.Changing {
			t.Errorf("opened for %v", store.purpose)
		}
	}
	want := lockstore.RevokeParams{Key: "account:42", Token: 106, Operator: "op@ops", Reason: "ticket 7"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	store := revocable(106)
	store.revoke = func(lockstore.RevokeParams) (lockstore.LockOutcome, error) {
		return lockstore.LockOutcome{}, &lockstore.BlockedError{Key: "account:42", PIDs: []int32{77}}
	}
	run(t, store, yes...).check(t, app.Held, "", `"pids": [`)
	store.show = func(string) (lockstore.Entry, error) { return lockstore.Entry{}, lockstore.ErrNotFound }
	run(t, store, yes...).check(t, app.NotFound, "NOT_HELD", "not_held")
}

// --any-token follows a key that changes hands; --token never does.
//
// Mutation: take the anyToken test out of revoke.
func TestAnyTokenFollows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		exit  app.Exit
		calls string
	}{
		{[]string{"--any-token"}, app.OK, "show:account:42 revoke:106 revoke:107"},
		{[]string{"--token", "106"}, app.Refused, "show:account:42 revoke:106"},
	} {
		store := revocable(107)
		store.show = func(string) (lockstore.Entry, error) { return entry(106), nil }
		r := run(t, store, append([]string{"revoke", "account:42", "--reason", "r", "--yes"}, c.args...)...)
		if got := store.called(); r.exit != c.exit || got != c.calls {
			t.Errorf("%v: exit %d, calls %q, want %d, %q", c.args, r.exit, got, c.exit, c.calls)
		}
	}
	// A key that moves on each time is given up after a few tries.
	store := revocable(106)
	next := lockstore.Token(106)
	store.revoke = func(p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
		next++
		return lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: p.Key, Token: next, Presented: p.Token}, nil
	}
	run(t, store, "revoke", "account:42", "--reason", "r", "--yes", "--any-token").check(t, app.Refused, "TOKEN_MOVED", "look again")
	if got := strings.Count(store.called(), "revoke:"); got != 5 {
		t.Errorf("%d tries, want 5", got)
	}
}

// Who acts: flag over environment, else user@host; never blank.
//
// Clauses: K-3.3
// Mutation: take ValidOperator out of App.Operator.
func TestOperator(t *testing.T) {
	t.Parallel()
	store := revocable(106)
	args := []string{"revoke", "account:42", "--reason", "r", "--dry-run", "-o", "json"}
	for flag, want := range map[string]string{"": "op@ops", "carol@ops": "carol@ops"} {
		all := args
		if flag != "" {
			all = append(args[:len(args):len(args)], "--operator", flag)
		}
		if got := fields(t, run(t, store, all...).out)["operator"]; got != want {
			t.Errorf("--operator %q: %v, want %s", flag, got, want)
		}
	}
	noEnv := func(s *ui.Streams) {
		s.Env = func(name string) string { return map[string]string{"DLOCKCTL_LOCK_DSN": "host=/nowhere"}[name] }
	}
	who, err := app.UserAtHost()
	if err != nil {
		t.Fatal(err)
	}
	if got := fields(t, runWith(t, t.Context(), store, noEnv, "", args...).out)["operator"]; got != who {
		t.Errorf("default operator = %v, want %s", got, who)
	}
	run(t, nil, append(args[:len(args):len(args)], "--operator", " ")...).check(t, app.Usage, "", "operator")
}

// A question stops the clock: the deadline is for the database, not for the
// person.
//
// Mutation: take the timer's Stop out of App.Confirm.
func TestQuestionStopsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := revocable(106)
		slow := func(s *ui.Streams) {
			terminal(s)
			s.In = &slowReader{text: "y\n"}
		}
		r := runWith(t, t.Context(), store, slow, "", "revoke", "account:42", "--reason", "r", "--timeout", "500ms")
		if r.exit != app.OK {
			t.Errorf("exit %d: %s", r.exit, r.err)
		}
	})
}

// The clock goes on where it stood: a question does not give the database its
// time anew.
//
// Mutation: reset the timer to the whole deadline in pause.
func TestQuestionKeepsWhatWasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := revocable(106)
		show := store.show
		store.show = func(key string) (lockstore.Entry, error) {
			<-time.After(20 * time.Second)
			return show(key)
		}
		store.revoke = func(lockstore.RevokeParams) (lockstore.LockOutcome, error) {
			<-time.After(20 * time.Second)
			return lockstore.LockOutcome{}, context.Canceled
		}
		slow := func(s *ui.Streams) {
			terminal(s)
			s.In = &slowReader{text: "y\n"}
		}
		r := runWith(t, t.Context(), store, slow, "", "revoke", "account:42", "--reason", "r", "--timeout", "30s")
		r.check(t, app.Unreachable, "", "gave up after 30s")
	})
}

// slowReader answers after twice the deadline of the test above.
type slowReader struct{ text string }

func (r *slowReader) Read(p []byte) (int, error) {
	<-time.After(time.Second)
	return copy(p, r.text), nil
}
