package syncguard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

func revokes(key string, token lockstore.Token) lockstore.RevokeParams {
	return lockstore.RevokeParams{Key: key, Token: token, Operator: "erin", Reason: "stuck"}
}

// A revoke takes the grant of the original that the operator saw, by its key in any
// spelling, with an audit row; its holder learns of it at its next extend, and the key
// goes on above the revoked fence.
//
// Clauses: K-3.1, K-10.2
// Mutation: leave the comparison of the token out of revoke.
func TestRevokeTheOriginals(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		o := newOriginal(t, b)
		first, err := o.acquire(t.Context(), "caf\u00e9", 60_000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.release(t.Context(), first.lockID); err != nil {
			t.Fatal(err)
		}
		second, err := o.acquire(t.Context(), "caf\u00e9", 60_000)
		if err != nil {
			t.Fatal(err)
		}
		moved, err := b.store.Revoke(t.Context(), revokes("cafe\u0301", 1))
		hash := syncguard.TelemetryHash(second.lockID)
		if want := (lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: "caf\u00e9", Token: 2, Presented: 1, LockIDHash: hash}); err != nil || !cmp.Equal(moved, want) {
			t.Errorf("an older fence: %+v, %v, want %+v", moved, err, want)
		}
		if owns, err := o.owns(t.Context(), second.lockID); err != nil || !owns {
			t.Errorf("after a refused revoke the holder owns: %t, %v", owns, err)
		}
		done, err := b.store.Revoke(t.Context(), revokes("cafe\u0301", 2))
		if err != nil || done.Outcome != lockstore.Revoked || done.Token != 2 || done.AuditID == 0 {
			t.Errorf("the standing one: %+v, %v", done, err)
		}
		if got, err := o.extend(t.Context(), second.lockID, 60_000); err != nil || got.ok {
			t.Errorf("the revoked holder extends: %+v, %v", got, err)
		}
		row, err := b.store.Revocation(t.Context(), done.AuditID)
		row.RevokedAt = lockstore.Time{}
		want := lockstore.Revocation{ID: done.AuditID, Key: "caf\u00e9", PrevToken: 2, LockIDHash: hash, Operator: "erin", Reason: "stuck", LoginRole: "t_owner", ClientAddress: "127.0.0.1"}
		if err != nil || !cmp.Equal(row, want) {
			t.Errorf("the audit row: %+v, %v, want %+v", row, err, want)
		}
		for _, key := range []string{"caf\u00e9", "cafe\u0301"} {
			if rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{Key: key}); err != nil || len(rows) != 1 || rows[0].ID != done.AuditID {
				t.Errorf("the audit of %+q: %+v, %v", key, rows, err)
			}
		}
		if again := b.acquire(t, "caf\u00e9", time.Minute); again.Token != 3 {
			t.Errorf("the next fence is %s, want 3", again.Token)
		}
	})
}

// Without the audit table, which is made on request, nothing is revoked, and what is
// read from it says how to make it; locks work as ever.
//
// Clauses: K-3.1, K-10.2
// Mutation: drop the case of 42P01 in refusal or read.
func TestNoAuditTable(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		b.exec(t, `DROP TABLE dlockctl_syncguard_audit`)
		store := open(t, options(t, b.db))
		grant := b.acquire(t, "k", time.Minute)
		_, one := store.Revoke(t.Context(), revokes("k", grant.Token))
		_, many := store.RevokeMany(t.Context(), lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "k"}, Operator: "erin", Reason: "stuck", Expect: 1})
		_, list := store.Revocations(t.Context(), lockstore.RevocationFilter{})
		_, row := store.Revocation(t.Context(), 1)
		_, log := store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{})
		_, verify := store.VerifyAudit(t.Context())
		for doing, err := range map[string]error{"revoke": one, "revoke many": many, "revocations": list, "revocation": row, "operator log": log, "verify": verify} {
			unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
			if !ok || unsafe.Fix != "dlockctl migrate up --target syncguard --audit" || !strings.Contains(unsafe.Problem, `"dlockctl_syncguard_audit"`) {
				t.Errorf("%s: %v (%+v), want a refusal that names the table and the command", doing, err, unsafe)
			}
		}
		if entry, err := store.Show(t.Context(), "k"); err != nil || entry.Token != grant.Token {
			t.Errorf("after refused revokes: %+v, %v", entry, err)
		}
		if released, err := store.Release(t.Context(), "k", grant.Token); err != nil || released.Stale {
			t.Errorf("release: %+v, %v", released, err)
		}
	})
}

// The audit refuses every change, to its owner too; with its guard off that shows.
//
// Clauses: K-3.3
// Mutation: leave ENABLE ALWAYS, or one of the three kinds of change, out of
// R__keep_audit.sql.
func TestAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		if _, err := b.store.Revoke(t.Context(), revokes("k", b.acquire(t, "k", time.Minute).Token)); err != nil {
			t.Fatal(err)
		}
		super := b.db.Conn(t, "super")
		for _, sql := range []string{
			`UPDATE dlockctl_syncguard_audit SET operator = 'mallory'`, `DELETE FROM dlockctl_syncguard_audit`, `TRUNCATE dlockctl_syncguard_audit`,
			`SET session_replication_role = replica; DELETE FROM dlockctl_syncguard_audit`,
		} {
			if _, err := super.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %v, want it refused", sql, err)
			}
		}
		b.exec(t, `INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason) VALUES ('fast_forward', '', 7, 'erin', 'restored')`)
		if log, err := b.store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: "fast_forward"}); err != nil || len(log) != 1 || log[0].Token != 7 {
			t.Errorf("the operator log: %+v, %v", log, err)
		}
		if report, err := b.store.VerifyAudit(t.Context()); err != nil || report.Revocations != 1 || report.Records != 1 || len(report.Findings) != 0 {
			t.Errorf("verify: %+v, %v", report, err)
		}
		for _, off := range []string{"DISABLE TRIGGER append_only", "ENABLE TRIGGER append_only"} { // enabled, but not for a replica
			b.exec(t, `ALTER TABLE dlockctl_syncguard_audit `+off)
			if report, err := b.store.VerifyAudit(t.Context()); err != nil || len(report.Findings) != 1 || report.Findings[0].ID != "guard_off" {
				t.Errorf("%s: %+v, %v, want guard_off", off, report, err)
			}
		}
	})
}

// A revoke that would need what SyncGuard does not have is refused as such, and takes
// nothing.
//
// Mutation: ignore EndSession, FenceAccounts, Owner or Session.
func TestUnsupportedSaysWhy(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	grant := b.acquire(t, "k", time.Minute)
	withSession, withFence := revokes("k", grant.Token), revokes("k", grant.Token)
	withSession.EndSession, withFence.FenceAccounts = true, []string{"00000000-0000-4000-8000-000000000001"}
	_, session := b.store.Revoke(t.Context(), withSession)
	_, fence := b.store.Revoke(t.Context(), withFence)
	_, bySession := b.store.List(t.Context(), lockstore.Filter{Session: "s"})
	_, byOwner := b.store.List(t.Context(), lockstore.Filter{Owner: "alice"})
	_, under := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "x", Owner: "alice", Session: "s", TTL: time.Minute})
	_, history := b.store.GrantHistory(t.Context(), 1)
	for want, err := range map[string]error{
		"hangs on no session": session, "counts for its key alone": fence, "by session": bySession, "name no owner": byOwner,
		"acquire under a session": under, "keeps no journal": history,
	} {
		if !errors.Is(err, lockstore.ErrUnsupported) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(syncguard)") {
			t.Errorf("%v, want it unsupported by syncguard, saying %q", err, want)
		}
	}
	if entries, err := b.store.List(t.Context(), lockstore.Filter{}); err != nil || len(entries) != 1 {
		t.Errorf("left: %+v, %v", entries, err)
	}
}

// Prune leaves a row for two seconds past its end, as the library's cleanup does, and
// for as long as asked; it takes at most the limit, leaves what somebody works on, and
// never touches a counter.
//
// Clauses: K-10.2
// Mutation: 1,000 or 3,000 ms for pruneAfter; leave SKIP LOCKED out of
// queries/prune.sql: it blocks.
func TestPrune(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		opts := options(t, b.db)
		opts.LockTimeout = 50 * time.Millisecond
		store := open(t, opts)
		const nowMs = 1_000_000
		takeOut(t, store, "prune", "<= floor(extract(epoch FROM now()) * 1000)::bigint", fmt.Sprint("<= ", nowMs))
		takeOut(t, store, "list_entries", "floor(extract(epoch FROM now()) * 1000)::bigint", fmt.Sprint(nowMs, "::bigint"))
		for key, ago := range map[string]int64{"-900": 900, "-1900": 1900, "-2000": 2000, "-2100": 2100, "-9000": 9000, "live": -60_000, "k": 9000} {
			b.acquire(t, key, time.Minute)
			b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = $2::bigint WHERE key = $1`, key, nowMs-ago)
		}
		holding(t, b, holdsRow)
		for _, c := range []struct {
			olderThan time.Duration
			limit     int
			want      []string
		}{{9 * time.Second, 10, []string{"-9000"}}, {0, 1, []string{"-2000"}}, {0, 10, []string{"-2100"}}, {0, 10, nil}} {
			if seen := prunable(t, store, c.olderThan, c.limit); !slices.Equal(seen, c.want) {
				t.Errorf("of what is %s old %q were told beforehand, want %q", c.olderThan, seen, c.want)
			}
			pruned, err := store.Prune(t.Context(), c.olderThan, c.limit)
			var keys []string
			for _, entry := range pruned {
				keys = append(keys, entry.Key)
			}
			if err != nil || !slices.Equal(keys, c.want) {
				t.Errorf("prune of what is %s old: %q, %v, want %q", c.olderThan, keys, err, c.want)
			}
		}
		b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = 0 WHERE key <> 'k'`)
		if pruned, err := store.Prune(t.Context(), 0, 1); err != nil || len(pruned) != 1 || pruned[0].State != lockstore.Stale || pruned[0].Token != 1 {
			t.Errorf("prune of one: %+v, %v", pruned, err)
		}
		if n := one[int](t, b, `SELECT count(*) FROM syncguard_fence_counters WHERE fence = 1`); n != 7 {
			t.Errorf("%d counters are left, want 7", n)
		}
		for _, wrong := range []struct {
			olderThan time.Duration
			limit     int
		}{{-1, 1}, {0, 0}} {
			if _, err := store.Prune(t.Context(), wrong.olderThan, wrong.limit); !errors.Is(err, lockstore.ErrInvalid) {
				t.Errorf("prune %+v: %v, want ErrInvalid", wrong, err)
			}
		}
	})
}

// prunable is what lock prune tells beforehand: what has lapsed, by the list, for as
// long as was asked and as is declared. k is what somebody works on meanwhile.
func prunable(t *testing.T, store *syncguard.Store, olderThan time.Duration, limit int) []string {
	t.Helper()
	lapsed, err := store.List(t.Context(), lockstore.Filter{Expired: true})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range lapsed {
		if -e.Remaining >= max(olderThan, store.Capabilities().PruneAfter) && e.Key != "k" && len(keys) < limit {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// The list tells held from in tolerance and from stale, finds a prefix in any
// spelling, and lists what others have written wrongly: no row makes it fail.
//
// Clauses: K-2.5, K-10.2
// Mutation: subtract expires_at_ms from the time in queries/list_entries.sql, or parse
// the fence there.
func TestListStates(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		// As the library's setup makes it: without the two columns of the shipped file.
		b.exec(t, `ALTER TABLE syncguard_locks DROP COLUMN expires_at_ts, DROP COLUMN acquired_at_ts`)
		store := open(t, options(t, b.db))
		const nowMs = 1_700_000_000_000
		takeOut(t, store, "list_entries", "floor(extract(epoch FROM now()) * 1000)::bigint", fmt.Sprint(nowMs, "::bigint"))
		for i, r := range []struct {
			key, fence string
			expires    int64
		}{
			{"a/held", "000000000000042", nowMs + 1},
			{"a/in", "000000000000001", nowMs},
			{"a/within", "000000000000001", nowMs - 999},
			{"a/stale", "000000000000001", nowMs - 1000},
			{"caf\u00e9/1", "1000000000000000", math.MaxInt64},
			{"z/negative", "0000000000000-5", math.MinInt64},
			{strings.Repeat("z", 1000), "x", 1 << 53},
		} {
			b.exec(t, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ($1, $2, $3, $4, $5, $1)`,
				r.key, fmt.Sprint("id", i), r.expires, nowMs-1500, r.fence)
		}
		entries, err := store.List(t.Context(), lockstore.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%.10s %s %s %t %s", e.Key, e.Token, e.State, e.Expired, e.Remaining))
			if e.Age != 1500*time.Millisecond {
				t.Errorf("%s is %s old", e.Key, e.Age)
			}
		}
		want := []string{
			"a/held 42 held false 1ms", "a/in 1 in_tolerance false 0s", "a/stale 1 stale true -1s", "a/within 1 in_tolerance false -999ms",
			"caf\u00e9/1 1000000000000000 held false " + time.Duration(math.MaxInt64/2).String(), "z/negative 0 stale true " + time.Duration(math.MinInt64/2).String(),
			"zzzzzzzzzz 0 held false " + time.Duration(math.MaxInt64/2).String(),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		for name, c := range map[string]struct {
			filter lockstore.Filter
			want   int
		}{
			"expired": {lockstore.Filter{Expired: true}, 2}, "prefix": {lockstore.Filter{Prefix: "a/"}, 4},
			"prefix in another spelling": {lockstore.Filter{Prefix: "cafe\u0301"}, 1}, "limit": {lockstore.Filter{Limit: 3}, 3},
		} {
			if found, err := store.List(t.Context(), c.filter); err != nil || len(found) != c.want {
				t.Errorf("%s: %d entries, %v, want %d", name, len(found), err, c.want)
			}
		}
		if entry, err := store.Show(t.Context(), strings.Repeat("z", 1000)); err != nil || entry.Token != 0 {
			t.Errorf("a key that the library would not take: %+v, %v", entry, err)
		}
	})
}

// Watch tells a grant, its extension by the original, its lapse when the tolerance is
// over too, and its end.
//
// Clauses: K-10.2
// Mutation: leave what is stale out of queries/list_entries.sql.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	o := newOriginal(t, b)
	grant := b.acquire(t, "k", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	var kinds []lockstore.ChangeKind
	err := lockstore.Watch(ctx, b.store, lockstore.Filter{Prefix: "k"}, 5*time.Millisecond, func(c lockstore.Change) error {
		kinds = append(kinds, c.Kind)
		switch c.Kind {
		case lockstore.ChangeHeld:
			_, err := o.extend(t.Context(), grant.LockID, 120_000)
			return err
		case lockstore.ChangeRenewed:
			if c.State == lockstore.Held {
				b.ends(t, -time.Hour)
			}
		case lockstore.ChangeLapsed:
			b.exec(t, `DELETE FROM syncguard_locks`)
		case lockstore.ChangeGone:
			cancel()
		}
		return nil
	})
	want := []lockstore.ChangeKind{lockstore.ChangeHeld, lockstore.ChangeRenewed, lockstore.ChangeLapsed, lockstore.ChangeGone}
	if !errors.Is(err, context.Canceled) || !slices.Equal(kinds, want) {
		t.Errorf("watched %q, %v, want %q", kinds, err, want)
	}
}

// A bulk revoke takes what the prefix selects in any spelling, an audit row each, and
// never everything.
//
// Clauses: K-3.4
// Mutation: drop the refusal of an empty prefix, or the comparison with Expect.
func TestRevokeManyByPrefix(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		for _, key := range []string{"caf\u00e9/2", "caf\u00e9/1", "other"} {
			b.acquire(t, key, time.Hour)
		}
		params := lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "cafe\u0301/"}, Operator: "erin", Reason: "drain", Expect: 3}
		if _, err := b.store.RevokeMany(t.Context(), params); !isCountMoved(err, 3, 2) {
			t.Errorf("another number: %v", err)
		}
		params.Expect = 2
		outcomes, err := b.store.RevokeMany(t.Context(), params)
		if err != nil || len(outcomes) != 2 || outcomes[0].Key != "caf\u00e9/1" || outcomes[1].Key != "caf\u00e9/2" || outcomes[1].Token != 1 || outcomes[0].AuditID == 0 {
			t.Errorf("revoked %+v, %v", outcomes, err)
		}
		if rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{Operator: "erin"}); err != nil || len(rows) != 2 {
			t.Errorf("audit: %+v, %v", rows, err)
		}
		for _, filter := range []lockstore.Filter{{}, {Expired: true}, {Prefix: "other", Limit: 1}} {
			if _, err := b.store.RevokeMany(t.Context(), lockstore.RevokeManyParams{Filter: filter, Operator: "erin", Reason: "all", Expect: 1}); !errors.Is(err, lockstore.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", filter, err)
			}
		}
		if entries, err := b.store.List(t.Context(), lockstore.Filter{}); err != nil || len(entries) != 1 {
			t.Errorf("left: %+v, %v", entries, err)
		}
	})
}

func isCountMoved(err error, expected, found int) bool {
	moved, ok := errors.AsType[*lockstore.CountMovedError](err)
	return ok && *moved == lockstore.CountMovedError{Expected: expected, Found: found}
}
