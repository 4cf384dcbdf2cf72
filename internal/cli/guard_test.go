package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// destructible is a store on which whatever destroys would succeed.
func destructible() *fake {
	store := revocable(106)
	store.list = func(lockstore.Filter) ([]lockstore.Entry, error) { return []lockstore.Entry{entry(106)}, nil }
	store.many = func(lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
		return []lockstore.LockOutcome{{Outcome: lockstore.Revoked, Key: "account:42", Token: 106, AuditID: 12}}, nil
	}
	store.prune = func(time.Duration, int) ([]lockstore.Entry, error) { return []lockstore.Entry{entry(106)}, nil }
	store.session = func(id lockstore.SessionID) (lockstore.Session, error) {
		return lockstore.Session{ID: id, Owner: "alice@a"}, nil
	}
	return store
}

// destroyed tells whether a store was changed.
func destroyed(store *fake) bool {
	calls := store.called()
	for _, change := range []string{"revoke:", "revokemany:", "prune:", "end:"} {
		if strings.Contains(calls, change) {
			return true
		}
	}
	return false
}

const profiles = `
profiles:
  prod:
    protected: true
    environment: prod-eu
  open:
    environment: test
  Staging:
    protected: true
`

// inProfiles runs the program with a configuration file of these profiles.
func inProfiles(t *testing.T, store *fake, env map[string]string, tty bool, typed string, args ...string) result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(profiles), 0o600); err != nil {
		t.Fatal(err)
	}
	return runWith(t, t.Context(), store, func(s *ui.Streams) {
		if tty {
			terminal(s)
		}
		outer := s.Env
		s.Env = func(name string) string {
			if value, set := env[name]; set {
				return value
			}
			if name == "DLOCKCTL_CONFIG" {
				return file
			}
			return outer(name)
		}
	}, typed, args...)
}

// Nothing but the protected profile's own name, by the flag, lets a destructive
// verb through.
//
// Mutation: compare with EqualFold in Protect, let --yes pass, or take Protect
// out of any of the verbs.
func TestProtectedProfile(t *testing.T) {
	t.Parallel()
	verbs := map[string][]string{
		"revoke":      {"revoke", "account:42", "--reason", "r", "--yes", "--token", "106"},
		"revoke many": {"revoke", "--owner", "alice@a", "--reason", "r", "--yes", "--expect-count", "1"},
		"prune":       {"lock", "prune", "--yes"},
		"end session": {"session", "end", string(givenSession), "--yes"},
	}
	for _, c := range []struct {
		name  string
		args  []string
		env   map[string]string
		tty   bool
		typed string
		exit  app.Exit
	}{
		{name: "by the flag", args: []string{"-p", "prod"}, exit: app.Refused},
		{name: "by the environment", env: map[string]string{"DLOCKCTL_PROFILE": "prod"}, exit: app.Refused},
		{name: "a name written in capitals", args: []string{"-p", "staging"}, exit: app.Refused},
		{name: "named in capitals", args: []string{"-p", "Staging"}, exit: app.Usage},
		{name: "another case", args: []string{"-p", "prod", "--confirm", "Prod"}, exit: app.Refused},
		{name: "a blank more", args: []string{"-p", "prod", "--confirm", "prod "}, exit: app.Refused},
		{name: "empty", args: []string{"-p", "prod", "--confirm", ""}, exit: app.Refused},
		{name: "another profile's name", args: []string{"-p", "prod", "--confirm", "staging"}, exit: app.Refused},
		{name: "the environment's name", args: []string{"-p", "prod", "--confirm", "prod-eu"}, exit: app.Refused},
		{name: "confirmed for another one in force", args: []string{"-p", "open", "--confirm", "prod"}, exit: app.Refused},
		{name: "typed", args: []string{"-p", "prod"}, tty: true, typed: "prod\ny\n", exit: app.Refused},
		{name: "piped", args: []string{"-p", "prod"}, typed: "prod\n", exit: app.Refused},
		{name: "a variable", args: []string{"-p", "prod"}, env: map[string]string{"DLOCKCTL_CONFIRM": "prod"}, exit: app.Refused},
		{name: "unprotected by a variable", args: []string{"-p", "prod"}, env: map[string]string{"DLOCKCTL_PROTECTED": "false"}, exit: app.Usage},
		{name: "its environment, without the profile", args: []string{"--environment", "prod-eu"}, exit: app.Refused},
		{name: "its environment, from an open profile", args: []string{"-p", "open"}, env: map[string]string{"DLOCKCTL_ENVIRONMENT": "prod-eu"}, exit: app.Refused},
		{name: "its environment, the open one confirmed", args: []string{"-p", "open", "--environment", "prod-eu", "--confirm", "open"}, exit: app.Refused},

		{name: "confirmed", args: []string{"-p", "prod", "--confirm", "prod"}, exit: app.OK},
		{name: "its environment, confirmed", args: []string{"--environment", "prod-eu", "--confirm=prod"}, exit: app.OK},
		{name: "an open one", args: []string{"-p", "open"}, exit: app.OK},
		{name: "an open one, confirmed", args: []string{"-p", "open", "--confirm", "open"}, exit: app.OK},
	} {
		for verb, args := range verbs {
			t.Run(c.name+"/"+verb, func(t *testing.T) {
				t.Parallel()
				store := destructible()
				r := inProfiles(t, store, c.env, c.tty, c.typed, append(args[:len(args):len(args)], c.args...)...)
				if r.exit != c.exit || destroyed(store) != (c.exit == app.OK) {
					t.Errorf("exit %d, want %d; calls %q; stderr %s", r.exit, c.exit, store.called(), r.err)
				}
			})
		}
	}
}

// --confirm says which profile, and not yes: the other guards stand.
//
// Mutation: let --confirm stand for --yes in saidAloud.
func TestConfirmIsNotYes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"revoke", "account:42", "--reason", "r", "--token", "106"},
		{"revoke", "--owner", "alice@a", "--reason", "r", "--expect-count", "1"},
		{"lock", "prune"},
	} {
		store := destructible()
		r := inProfiles(t, store, nil, false, "y\n", append(args, "-p", "prod", "--confirm", "prod")...)
		if r.exit != app.Refused || destroyed(store) {
			t.Errorf("%v: exit %d, calls %q", args, r.exit, store.called())
		}
	}
}

// Looking needs no confirmation; one's own session may be ended.
func TestProtectedProfileLetsLook(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"revoke", "account:42", "--reason", "r", "--dry-run"},
		{"revoke", "--owner", "alice@a", "--reason", "r", "--dry-run"},
		{"lock", "prune", "--dry-run"},
		{"lock", "list"},
	} {
		store := destructible()
		r := inProfiles(t, store, nil, false, "", append(args, "-p", "prod")...)
		if r.exit != app.OK || destroyed(store) || store.purpose != postgres.Reading || strings.Contains(r.err, "PROTECTED") {
			t.Errorf("%v: exit %d, opened for %v, stderr %q", args, r.exit, store.purpose, r.err)
		}
	}
	store := destructible()
	own := map[string]string{"DLOCKCTL_SESSION": string(givenSession)}
	if r := inProfiles(t, store, own, false, "", "session", "end", "-p", "prod"); r.exit != app.OK || !destroyed(store) {
		t.Errorf("one's own session: exit %d, stderr %q", r.exit, r.err)
	}
}

// Each change in a protected profile is made under its badge, which leaves the
// one JSON object of an error alone.
//
// Mutation: take Badge out of LockStore, or asides out of Badge.
func TestBadge(t *testing.T) {
	t.Parallel()
	badge := " PROTECTED  profile prod\n"
	for _, args := range [][]string{{"acquire", "k"}, {"release", "k", "--token", "9"}, {"session", "create"}} {
		store := destructible()
		store.release = func(token lockstore.Token) (lockstore.Release, error) {
			return lockstore.Release{Key: "k", Token: token}, nil
		}
		r := inProfiles(t, store, nil, false, "", append(args, "-p", "prod")...)
		if r.exit != app.OK || !strings.HasPrefix(r.err, badge) {
			t.Errorf("%v: exit %d, stderr %q", args, r.exit, r.err)
		}
		if r := inProfiles(t, store, nil, false, "", append(args, "-p", "prod", "-o", "json")...); r.err != "" {
			t.Errorf("%v with JSON: stderr %q", args, r.err)
		}
	}
	r := inProfiles(t, destructible(), nil, true, "", "acquire", "k", "-p", "prod")
	if !strings.Contains(r.err, "\x1b[1;97;41m PROTECTED \x1b[0m profile prod") {
		t.Errorf("on a terminal: %q", r.err)
	}
}

// That the locks moved on between the look and the revoke changes nothing, and
// that is said.
//
// Clauses: K-3.4
// Mutation: return the error of RevokeMany as it is.
func TestBulkRevokeMovedOn(t *testing.T) {
	t.Parallel()
	store := destructible()
	store.many = func(p lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
		return nil, &lockstore.CountMovedError{Expected: p.Expect, Found: 3}
	}
	run(t, store, "revoke", "--prefix", "account:", "--reason", "r", "--yes", "--expect-count", "1").
		check(t, app.Refused, "", "3 grants match, not 1: the locks have moved on since; nothing was changed\nhint: look again")
}

// In bulk, the number that was seen is said aloud, and nothing else is enough.
//
// Clauses: K-3.4
// Mutation: take any case out of bulkSaidAloud.
func TestBulkRevokeGuards(t *testing.T) {
	t.Parallel()
	base := []string{"revoke", "--prefix", "account:", "--reason", "ticket 7"}
	for _, c := range []struct {
		name  string
		args  []string
		tty   bool
		typed string
		exit  app.Exit
		calls string
	}{
		{"no terminal, no flags", nil, false, "y\n", app.Refused, ""},
		{"no terminal, number but no yes", []string{"--expect-count", "1"}, false, "y\n", app.Refused, ""},
		{"yes but no number", []string{"--yes"}, false, "", app.Usage, ""},
		{"terminal, yes but no number", []string{"--yes"}, true, "", app.Usage, ""},
		{"another number", []string{"--yes", "--expect-count", "2"}, false, "", app.Refused, "list"},
		{"the number", []string{"--yes", "--expect-count", "1"}, false, "", app.OK, "list revokemany:1"},
		{"asked, yes", nil, true, "y\n", app.OK, "list revokemany:1"},
		{"asked, no", nil, true, "n\n", app.Refused, "list"},
		{"a token", []string{"--yes", "--expect-count", "1", "--token", "106"}, false, "", app.Usage, ""},
		{"any token", []string{"--yes", "--expect-count", "1", "--any-token"}, false, "", app.Usage, ""},
		{"ending sessions", []string{"--yes", "--expect-count", "1", "--end-session"}, false, "", app.Usage, ""},
		{"a key as well", []string{"account:42", "--yes", "--expect-count", "1"}, false, "", app.Usage, ""},
		{"dry run", []string{"--dry-run"}, false, "", app.OK, "list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := destructible()
			var change func(*ui.Streams)
			if c.tty {
				change = terminal
			}
			r := runWith(t, t.Context(), store, change, c.typed, append(base[:len(base):len(base)], c.args...)...)
			if r.exit != c.exit || store.called() != c.calls {
				t.Errorf("exit %d, want %d; calls %q, want %q; stderr %q", r.exit, c.exit, store.called(), c.calls, r.err)
			}
		})
	}
}
