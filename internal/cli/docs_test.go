package cli_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Every code that a verb gives a failure of its own has its row in
// docs/exit-codes.md; the stores' errors are held to it beside their table.
//
// Mutation: take the row of any code out of the page.
func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`Code: +"([a-z_]+)"`)
	found := 0
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range code.FindAllSubmatch(text, -1) {
			found++
			name := string(match[1])
			if !strings.Contains(string(page), "| `"+name+"` |") && name != "unexpected" {
				t.Errorf("%s: code %q has no row in docs/exit-codes.md", path, name)
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d codes found, %v: the search is broken", found, err)
	}
}

// Every field that a verb prints is named in its section of docs/json.md.
//
// Mutation: take any field out of a section of the page.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	page := jsonPage(t)
	store := talkative()
	for _, c := range []struct {
		section string
		args    []string
	}{
		{"revoke", []string{"revoke", "account:42", "--reason", "r", "--yes", "--token", "106", "--end-session"}},
		{"revoke", []string{"revoke", "account:42", "--reason", "r", "--yes", "--token", "106", "--fence-account", "00000000-0000-4000-8000-000000000001"}},
		{"revoke", []string{"revoke", "--owner", "alice@a", "--reason", "r", "--yes", "--expect-count", "1"}},
		{"lock watch", []string{"lock", "watch", "--timeout", "1s"}},
		{"lock prune", []string{"lock", "prune", "--yes"}},
		{"lock prune", []string{"lock", "prune", "--dry-run", "--older-than", "0s"}},
		{"audit list, audit show", []string{"audit", "list"}},
		{"audit list, audit show", []string{"audit", "list", "--kind", "operator"}},
		{"audit export", []string{"audit", "export"}},
		{"audit verify", []string{"audit", "verify"}},
		{"token explain", []string{"token", "explain", "106"}},
		{"config show, profiles, init", []string{"config", "show"}},
		{"config show, profiles, init", []string{"config", "profiles"}},
	} {
		fieldsDocumented(t, page, store, c.section, c.args...)
	}
}

// What is printed of a backend whose rows name no owner, and whose grants have lock ids,
// is named as well.
//
// Mutation: take lock_id_hash or presented_lock_id_hash out of a section of the page.
func TestEveryFieldOfLockIDsIsDocumented(t *testing.T) {
	t.Parallel()
	page := jsonPage(t)
	for _, c := range []struct{ section, line string }{
		{"acquire, renew", "acquire k"},
		{"lock list, lock show", "lock list"},
		{"lock list, lock show", "lock show k"},
		{"lock watch", "lock watch --timeout 1s"},
		{"lock prune", "lock prune --yes"},
		{"revoke", "revoke k --reason r --dry-run"},
		{"revoke", "revoke k --reason r --yes --lock-id-hash " + oddHash},
		{"revoke", "revoke k --reason r --yes --lock-id-hash " + otherHash},
		{"revoke", "revoke --prefix k --reason r --yes --expect-count 1"},
		{"audit list, audit show", "audit list"},
		{"audit list, audit show", "audit show 12"},
		{"audit export", "audit export"},
	} {
		store := ownerless()
		store.acquire = func(_ context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
			return lockstore.Grant{Key: p.Key, Token: 1, TTL: p.TTL, AcquiredAt: at(0), ExpiresAt: at(p.TTL), LockID: "id"}, nil
		}
		ended(store, c.line)
		fieldsDocumented(t, page, store, c.section, strings.Fields(c.line)...)
	}
	for _, state := range []lockstore.EntryState{lockstore.Held, lockstore.InTolerance, lockstore.Stale} {
		if !strings.Contains(documented(t, page, "## lock list, lock show"), "`"+string(state)+"`") {
			t.Errorf("the state %q is not in docs/json.md", state)
		}
	}
}

func jsonPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// fieldsDocumented wants each field that a command prints named in the section, or in one
// that this refers to.
func fieldsDocumented(t *testing.T, page string, store *fake, title string, args ...string) {
	t.Helper()
	section := documented(t, page, "## "+title)
	for _, also := range []string{"lock list, lock show", "audit list, audit show"} {
		refers := func(verb string) bool { return strings.Contains(section, "fields of `"+verb+"`") }
		if slices.ContainsFunc(strings.Split(also, ", "), refers) {
			section += documented(t, page, "## "+also)
		}
	}
	r := run(t, store, append(args, "-o", "jsonl")...)
	if r.out == "" {
		t.Errorf("%v prints nothing: %s", args, r.err)
	}
	for line := range strings.Lines(r.out) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		for name := range fieldNames(row) {
			if !strings.Contains(section, "`"+name+"`") {
				t.Errorf("%v: field %q is not in the section %q of docs/json.md", args, name, title)
			}
		}
	}
}

// talkative is a store that gives every field a value.
func talkative() *fake {
	store := destructible()
	lapsed := entry(106)
	lapsed.Remaining, lapsed.Expired = -time.Hour, true
	calls := 0
	store.list = func(f lockstore.Filter) ([]lockstore.Entry, error) {
		if f.Owner == "" && f.Session == "" && !f.Expired {
			if calls++; calls > 1 {
				return nil, lockstore.ErrInvalid // ends the watch
			}
		}
		return []lockstore.Entry{lapsed}, nil
	}
	store.show = func(string) (lockstore.Entry, error) { return entry(106), nil }
	store.revoke = func(p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
		o := lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: p.Key, AuditID: 12, Owner: "alice@a", Token: p.Token, Presented: p.Token}
		if p.EndSession {
			o.Session, o.SessionEnded, o.AlsoRevoked = givenSession, true, []lockstore.LockOutcome{o}
		}
		if len(p.FenceAccounts) > 0 {
			o.Fence = 107
		}
		return o, nil
	}
	store.audit = func(lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
		return []lockstore.Revocation{{ID: 1, Key: "account:42", PrevToken: 106, RevokedAt: at(0), LoginRole: "l", ClientAddress: "::1"}}, nil
	}
	store.log = func(lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
		return []lockstore.OperatorRecord{{ID: 1, Action: "fence_account", Token: 107, Details: json.RawMessage(`{}`), ClientAddress: "::1"}}, nil
	}
	store.history = func(token lockstore.Token) (lockstore.GrantRecord, error) {
		return lockstore.GrantRecord{Key: "account:42", Token: token, Owner: "alice@a", Session: givenSession, GrantedAt: at(0)}, nil
	}
	return store
}

// fieldNames are the names of an object and of the objects in its lists; what an
// action put into details is its own.
func fieldNames(row map[string]any) map[string]bool {
	names := map[string]bool{}
	for name, value := range row {
		names[name] = true
		list, _ := value.([]any)
		for _, element := range list {
			if inner, isObject := element.(map[string]any); isObject {
				for name := range fieldNames(inner) {
					names[name] = true
				}
			}
		}
	}
	return names
}
