package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// Ending a session asks when locks hang on it, and only then.
//
// Mutation: take the Locks == 0 test out of ask.
func TestSessionEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		locks int
		args  []string
		tty   bool
		typed string
		exit  app.Exit
		err   string
		ended bool
	}{
		{"idle", 0, nil, false, "", app.OK, "", true},
		{"busy, no terminal", 1, nil, false, "y\n", app.Refused, "say yes by a flag: --yes", false},
		{"busy, yes by flag", 1, []string{"--yes"}, false, "", app.OK, "", true},
		{"busy, asked, yes", 1, nil, true, "y\n", app.OK, "release these 1 locks?", true},
		{"busy, asked, no", 1, nil, true, "\n", app.Refused, "nothing was changed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := &fake{
				session: func(id lockstore.SessionID) (lockstore.Session, error) {
					return lockstore.Session{ID: id, Owner: "alice@a", Locks: c.locks}, nil
				},
				list: func(f lockstore.Filter) ([]lockstore.Entry, error) {
					if f.Session != givenSession {
						t.Errorf("listed the locks of session %q", f.Session)
					}
					return []lockstore.Entry{entry(106)}, nil
				},
			}
			change := terminal
			if !c.tty {
				change = nil
			}
			r := runWith(t, t.Context(), store, change, c.typed, append([]string{"session", "end", string(givenSession)}, c.args...)...)
			if r.exit != c.exit || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, stderr %q", r.exit, r.err)
			}
			if got := strings.Contains(store.called(), "end:"+string(givenSession)); got != c.ended {
				t.Errorf("ended %v: %s", got, store.called())
			}
			if strings.Contains(r.err, string(givenSession)) {
				t.Errorf("shows the id: %s", r.err)
			}
		})
	}
}

func TestSessionErrors(t *testing.T) {
	t.Parallel()
	store := &fake{
		session: func(lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{}, fmt.Errorf("session: %w", lockstore.ErrNotFound)
		},
		heartbeat: func(lockstore.SessionID) (lockstore.Session, error) {
			return lockstore.Session{}, lockstore.ErrSessionLost
		},
		sessions: func(lockstore.SessionFilter) ([]lockstore.Session, error) { return nil, nil },
		reap: func(int) (lockstore.Reaped, error) {
			return lockstore.Reaped{}, &lockstore.UnreachableError{Doing: "reap", Err: errors.New("refused")}
		},
	}
	run(t, store, "session", "show", string(givenSession)).check(t, app.NotFound, "", "not found")
	run(t, store, "session", "heartbeat", string(givenSession)).check(t, app.Lost, "", "every lock under the session is void")
	run(t, store, "session", "end", string(givenSession)).check(t, app.NotFound, "", "not found")
	run(t, store, "session", "list").check(t, app.OK, "", "no sessions")
	run(t, store, "session", "list", "-o", "json").check(t, app.OK, "[]\n", "")
	run(t, store, "session", "reap").check(t, app.Unreachable, "", "is the server up")
	run(t, store, "acquire", "k", "--session", string(givenSession)).check(t, app.Lost, "", "session lost")
}

// A list verb hands its flags to the store as they are.
func TestFilters(t *testing.T) {
	t.Parallel()
	var locks lockstore.Filter
	var sessions lockstore.SessionFilter
	var audit lockstore.RevocationFilter
	store := &fake{
		list:     func(f lockstore.Filter) ([]lockstore.Entry, error) { locks = f; return nil, nil },
		sessions: func(f lockstore.SessionFilter) ([]lockstore.Session, error) { sessions = f; return nil, nil },
		audit:    func(f lockstore.RevocationFilter) ([]lockstore.Revocation, error) { audit = f; return nil, nil },
	}
	run(t, store, "lock", "list", "--owner", "o", "--prefix", "p", "--session", "s", "--expired", "--limit", "3").check(t, app.OK, "", "no locks")
	run(t, store, "session", "list", "--owner", "o", "--expired", "--limit", "3").check(t, app.OK, "", "no sessions")
	run(t, store, "audit", "list", "--key", "k", "--by", "b").check(t, app.OK, "", "no revocations")
	if want := (lockstore.Filter{Owner: "o", Prefix: "p", Session: "s", Expired: true, Limit: 3}); locks != want {
		t.Errorf("lock list: %+v", locks)
	}
	if want := (lockstore.SessionFilter{Owner: "o", Expired: true, Limit: 3}); sessions != want {
		t.Errorf("session list: %+v", sessions)
	}
	if want := (lockstore.RevocationFilter{Key: "k", Operator: "b", Limit: 50}); audit != want {
		t.Errorf("audit list: %+v", audit)
	}
	if store.purpose != postgres.Reading {
		t.Errorf("a list opened the store for %v", store.purpose)
	}
}

// Each field of the JSON output stands in the contract, docs/json.md.
//
// Mutation: rename any JSON tag of a view.
func TestJSONDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	blocked := entry(106)
	blocked.BlockedBy = []int32{77}
	store := revocable(106)
	store.show = func(string) (lockstore.Entry, error) { return blocked, nil }
	store.list = func(lockstore.Filter) ([]lockstore.Entry, error) { return []lockstore.Entry{blocked}, nil }
	store.release = func(token lockstore.Token) (lockstore.Release, error) {
		return lockstore.Release{Key: "k", Token: token}, nil
	}
	store.renew = func(token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
		return lockstore.Grant{Key: "k", Token: token, TTL: ttl}, nil
	}
	store.session = func(id lockstore.SessionID) (lockstore.Session, error) {
		return lockstore.Session{ID: id, Owner: "o", CreatedAt: at(0)}, nil
	}
	store.heartbeat = func(id lockstore.SessionID) (lockstore.Session, error) { return lockstore.Session{ID: id}, nil }
	store.audit = func(lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
		return []lockstore.Revocation{{ID: 1, Key: "k", PrevToken: 7, RevokedAt: at(0), ClientAddress: "::1"}}, nil
	}
	store.reap = func(int) (lockstore.Reaped, error) { return lockstore.Reaped{Sessions: 1}, nil }
	for section, lines := range map[string][]string{
		"## acquire, renew":         {"acquire k", "renew k --token 106"},
		"## release":                {"release k --token 9 --session " + string(givenSession)},
		"## revoke":                 {"revoke k --reason r --yes --token 106", "revoke k --reason r --yes --token 7"},
		"## lock list, lock show":   {"lock list", "lock show k"},
		"## session create":         {"session create", "session show s1234567", "session heartbeat s1234567", "session end s1234567", "session reap"},
		"## audit list, audit show": {"audit list", "audit show 1"},
		"## version":                {"version"},
	} {
		body := documented(t, string(text), section)
		for _, line := range lines {
			r := run(t, store, append(strings.Fields(line), "-o", "json")...)
			for _, name := range jsonNames(t, r.out) {
				if !strings.Contains(body, "`"+name+"`") {
					t.Errorf("%s: the field %s is not in %q of docs/json.md", line, name, section)
				}
			}
		}
	}
}

// documented returns a section of the document.
func documented(t *testing.T, doc, title string) string {
	t.Helper()
	_, after, found := strings.Cut(doc, "\n"+title)
	if !found {
		t.Fatalf("docs/json.md has no section %q", title)
	}
	body, _, _ := strings.Cut(after, "\n## ")
	return body
}

// jsonNames lists the field names of an object, or of a list's first one.
func jsonNames(t *testing.T, text string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if list, isList := value.([]any); isList {
		value = list[0]
	}
	var names []string
	for name := range value.(map[string]any) {
		names = append(names, name)
	}
	if len(names) == 0 {
		t.Errorf("no fields in %q", text)
	}
	slices.Sort(names)
	return names
}
