package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

const (
	oddHash   = "0a1b2c3d4e5f60718293a4b5"
	otherHash = "ffffffffffffffffffffffff"
)

// ownerless is a store as SyncGuard's tables are one: rows name no owner and hang on
// no session, and a grant has a lock id. Its lock k has a fence that is no token.
func ownerless() *fake {
	odd := lockstore.Entry{
		Key: "k", KeyHash: otherHash, LockIDHash: oddHash, Fence: "0000000000000-5", State: lockstore.Held,
		AcquiredAt: at(0), ExpiresAt: at(time.Minute), Age: 20 * time.Second, Remaining: 40 * time.Second, BlockedBy: []int32{77},
	}
	store := &fake{has: (*syncguard.Store)(nil).Capabilities()}
	store.show = func(string) (lockstore.Entry, error) { return odd, nil }
	store.list = func(lockstore.Filter) ([]lockstore.Entry, error) { return []lockstore.Entry{odd}, nil }
	store.revoke = func(p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
		o := lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: p.Key, Presented: p.Token, PresentedHash: p.LockIDHash, LockIDHash: oddHash}
		if p.LockIDHash == oddHash && p.Token == 0 {
			o.Outcome, o.AuditID = lockstore.Revoked, 12
		}
		return o, nil
	}
	store.many = func(lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
		return []lockstore.LockOutcome{{Outcome: lockstore.Revoked, Key: "k", AuditID: 12, Token: 7, LockIDHash: oddHash}}, nil
	}
	store.audit = func(lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
		return []lockstore.Revocation{
			{ID: 12, Key: "k", LockIDHash: oddHash, PrevFence: "0000000000000-5", Operator: "erin", Reason: "stuck", RevokedAt: at(0), LoginRole: "app", ClientAddress: "::1"},
			{ID: 13, Key: "k", LockIDHash: oddHash, PrevToken: 7, Operator: "erin", Reason: "stuck", RevokedAt: at(0), LoginRole: "app"},
		}, nil
	}
	store.log = func(lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) { return nil, nil }
	store.prune = func(time.Duration, int) ([]lockstore.Entry, error) { return []lockstore.Entry{odd}, nil }
	return store
}

// A grant whose fence is no token is revoked by the hash of its lock id, by whichever
// stands, or after a question that shows it; never another one.
//
// Clauses: K-3.1, K-10.2
// Mutation: leave the hash out of means, of named, or of the params of revoke.
func TestRevokeByLockIDHash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, typed string
		exit        app.Exit
		err         string
		revoked     bool
	}{
		{"--yes --lock-id-hash " + oddHash, "", app.OK, "the fence was no token", true},
		{"--yes --any-token", "", app.OK, "the fence was no token", true},
		{"", "y\n", app.OK, `lock "k" is held by an unknown holder with the fence "0000000000000-5", which is no token, and lock id hash ` + oddHash + ", acquired 20s ago", true},
		{"--dry-run", "", app.OK, "to revoke it: --yes --lock-id-hash " + oddHash, false},
		{"--yes --lock-id-hash " + otherHash, "", app.Refused, `lock "k" is now held by an unknown holder with lock id hash ` + oddHash + ", not " + otherHash + "; nothing was changed", false},
		{"--yes --token 7", "", app.Refused, "with a fence that is no token, not with token 7", false},
		{"--yes --token 7 --lock-id-hash " + oddHash, "", app.Refused, "with a fence that is no token, not with token 7", false},
		{"--yes --any-token --lock-id-hash=", "", app.Usage, "--lock-id-hash is empty", false},
		{"--yes --any-token --lock-id-hash " + oddHash, "", app.Usage, "--lock-id-hash names one grant and --any-token none", false},
		{"--yes --expect-count 1 --lock-id-hash " + oddHash, "", app.Usage, "--token or --lock-id-hash says which grant is meant", false},
		{"--yes --lock-id-hash AAAAAAAAAAAAAAAAAAAAAA", "", app.Usage, "of 22 characters, is none", false},
		{"--yes --any-token --fence-account 00000000-0000-4000-8000-000000000001", "", app.Usage, "the backend syncguard has no tokens that an account can be fenced by", false},
	} {
		store := ownerless()
		args := append([]string{"revoke", "k", "--reason", "r"}, strings.Fields(c.args)...)
		r := runWith(t, t.Context(), store, terminal, c.typed, args...)
		if c.args == "--dry-run" {
			r = run(t, store, args...)
		}
		if r.exit != c.exit || !strings.Contains(r.err, c.err) || strings.Contains(r.err+r.out, "AAAAAAAA") {
			t.Errorf("%s: exit %d, want %d; stderr %q does not hold %q", c.args, r.exit, c.exit, r.err, c.err)
		}
		if got := strings.Contains(store.called(), "revoke:0"); got != c.revoked {
			t.Errorf("%s: calls %q", c.args, store.called())
		}
	}
	many := run(t, ownerless(), "revoke", "--prefix", "k", "--reason", "r", "--yes", "--expect-count", "1", "--lock-id-hash", oddHash)
	many.check(t, app.Usage, "", "are for one KEY")
	run(t, revocable(106), "revoke", "k", "--reason", "r", "--yes", "--lock-id-hash", oddHash).check(t, app.Usage, "", "the backend postgres has no lock ids")
}

// --any-token follows a key that changes hands by the lock id too.
//
// Mutation: leave the hash as it was seen in the loop of revoke.
func TestAnyTokenFollowsTheLockID(t *testing.T) {
	t.Parallel()
	store := ownerless()
	store.show = func(string) (lockstore.Entry, error) {
		return lockstore.Entry{Key: "k", Token: 6, LockIDHash: otherHash, State: lockstore.Held}, nil
	}
	run(t, store, "revoke", "k", "--reason", "r", "--yes", "--any-token", "-o", "json").check(t, app.OK, "REVOKED", "the fence was no token")
	if got := store.called(); got != "show:k revoke:6 revoke:0" {
		t.Errorf("calls %q", got)
	}
}

// Where rows name no owner, no text has a gap in its place, and no table a column that
// is empty throughout; whoever asks for the columns by name has them.
//
// Mutation: print the owner as it is in describe, grantOf or export, or leave OwnerColumn out.
func TestNobodyIsNamedWhereNobodyIsKnown(t *testing.T) {
	t.Parallel()
	terminalErr := map[string]string{
		"revoke --prefix k --reason r": `lock "k" is held by an unknown holder with the fence`,
		"lock prune --older-than 0s":   `lock "k" with the fence "0000000000000-5", which is no token, and lock id hash ` + oddHash + " of an unknown holder",
	}
	for line, want := range terminalErr {
		store := ownerless()
		if strings.HasPrefix(line, "lock prune") {
			lapse(store)
		}
		if r := runWith(t, t.Context(), store, terminal, "n\n", strings.Fields(line)...); !strings.Contains(r.err, want) {
			t.Errorf("%s: %q does not hold %q", line, r.err, want)
		}
	}
	for _, line := range []string{
		"lock list", "lock show k", "lock prune --dry-run --older-than 0s", "revoke k --reason r --dry-run", "revoke --prefix k --reason r --dry-run",
		"revoke --prefix k --reason r --yes --expect-count 1", "audit list", "audit show 12", "audit export", "lock watch --timeout 1s",
	} {
		store := ownerless()
		if strings.HasPrefix(line, "lock prune") {
			lapse(store)
		}
		ended(store, line)
		r := run(t, store, append(strings.Fields(line), "-o", "table")...)
		if r.out == "" || strings.Contains(r.out+r.err, `""`) || strings.Contains(r.out, "OWNER") || strings.Contains(r.out, " of  ") || strings.Contains(r.out, "  -") {
			t.Errorf("%s:\n%s%s", line, r.out, r.err)
		}
	}
	r := run(t, ownerless(), "audit", "export", "-o", "table")
	r.check(t, app.OK, "revocation 12  lock k fence 0000000000000-5  by erin: stuck\n", "")
	if !strings.Contains(r.out, "revocation 13  lock k token 7  by erin: stuck\n") {
		t.Errorf("export:\n%s", r.out)
	}
	run(t, ownerless(), "lock", "list", "--columns", "key,owner,fence", "-o", "csv").check(t, app.OK, "k,,0000000000000-5\n", "")
}

// A shell is told of a lock without an owner what there is.
//
// Mutation: print the owner as it is in keys, or offer it in owners.
func TestCompletionWithoutOwners(t *testing.T) {
	t.Parallel()
	lapsed := ownerless()
	lapse(lapsed)
	for _, c := range []struct {
		store      *fake
		line, want string
	}{
		{ownerless(), "lock show ", "k\t40s left\n:4\n"},
		{lapsed, "lock show ", "k\tlapsed\n:4\n"},
		{ownerless(), "lock list --owner ", ":4\n"},
	} {
		if got := run(t, c.store, append([]string{"__complete"}, strings.Split(c.line, " ")...)...).out; got != c.want {
			t.Errorf("%q completes %q, want %q", c.line, got, c.want)
		}
	}
}

// lapse makes the lock of the store one that a prune takes.
func lapse(store *fake) {
	list := store.list
	store.list = func(f lockstore.Filter) ([]lockstore.Entry, error) {
		entries, err := list(f)
		for i := range entries {
			entries[i].Remaining, entries[i].State, entries[i].Expired = -time.Hour, lockstore.Stale, true
		}
		return entries, err
	}
}

// ended ends a watch at its second look.
func ended(store *fake, line string) {
	if !strings.HasPrefix(line, "lock watch") {
		return
	}
	list, looks := store.list, 0
	store.list = func(f lockstore.Filter) ([]lockstore.Entry, error) {
		if looks++; looks > 1 {
			return nil, lockstore.ErrInvalid
		}
		return list(f)
	}
}

// What a prune would take is told by the same bound as it is taken by: the backend's,
// where that is above the age that is asked for.
//
// Mutation: leave PruneAfter out of prunable.
func TestPruneTellsWhatItTakes(t *testing.T) {
	t.Parallel()
	for age, want := range map[string][]string{"0s": {"2000", "3000"}, "2500ms": {"3000"}} {
		store := ownerless()
		store.list = func(f lockstore.Filter) ([]lockstore.Entry, error) {
			if !f.Expired {
				t.Errorf("listed %+v", f)
			}
			var entries []lockstore.Entry
			for _, ms := range []int{1000, 1999, 2000, 3000} {
				entries = append(entries, lockstore.Entry{Key: fmt.Sprint(ms), Token: 1, Expired: true, State: lockstore.Stale, Remaining: -time.Duration(ms) * time.Millisecond})
			}
			return entries, nil
		}
		r := run(t, store, "lock", "prune", "--dry-run", "--older-than", age, "-o", "name")
		if diff := cmp.Diff(want, strings.Fields(r.out)); r.exit != app.OK || diff != "" {
			t.Errorf("%s: exit %d (-want +got):\n%s", age, r.exit, diff)
		}
	}
}

// Without an audit, which SyncGuard's tables have on request only, a token is explained
// by what else is known, and what is not is said.
//
// Clauses: K-10.2
// Mutation: return the UnsafeError of Revocations, or of OperatorLog.
func TestExplainWithoutAnAudit(t *testing.T) {
	t.Parallel()
	store := ownerless()
	none := &lockstore.UnsafeError{Clause: "K-3.1", Problem: "there is no audit table", Fix: "dlockctl migrate up --target syncguard --audit"}
	store.list = func(lockstore.Filter) ([]lockstore.Entry, error) {
		return []lockstore.Entry{{Key: "k", Token: 7, State: lockstore.Held, AcquiredAt: at(0), ExpiresAt: at(time.Minute), Remaining: time.Minute}}, nil
	}
	store.history = func(lockstore.Token) (lockstore.GrantRecord, error) {
		return lockstore.GrantRecord{}, lockstore.ErrUnsupported
	}
	store.audit = func(lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
		return nil, fmt.Errorf("list revocations: %w", none)
	}
	store.log = func(lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
		return nil, fmt.Errorf("list the operator log: %w", none)
	}
	const said = "unknown: whether an operator revoked it, or moved its counter: there is no audit table; dlockctl migrate up --target syncguard --audit makes one"
	r := run(t, store, "token", "explain", "7")
	r.check(t, app.OK, `it stands on lock "k"`, said)
	if strings.Count(r.err, "audit table") != 1 {
		t.Errorf("it is said more than once: %s", r.err)
	}
	run(t, store, "token", "explain", "8").check(t, app.NotFound, "", said)
}
