package restore_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// A restored lockdb grants nobody anything; a fast-forward lands a margin above
// the highest token that anybody knows of, voids what came back to life with an
// audit row each, raises both floors and the outside mark, leaves its record, and
// grants again; a second one moves nothing.
//
// Clauses: K-7.3, K-7.4, K-7.5, K-7.7, K-7.8, K-3.6, K-11
// Mutation: leave out a step of (*run).steps, or the void of advance.
func TestFastForward(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		store := w.grantor(t)
		first, second := hold(t, store, "a"), hold(t, store, "b")
		const observed = 90_000
		w.observed(t, observed)
		w.rewound(t, int64(second.Token))
		if _, err := store.Renew(t.Context(), "a", first.Token, 1e9); err != nil {
			t.Fatalf("a restored lease is alive until it is voided: %v", err)
		}

		s := w.stores(t, how{})
		plan, err := restore.Prepare(t.Context(), s, options())
		if err != nil {
			t.Fatal(err)
		}
		const target = observed + restore.DefaultMargin
		if plan.Outcome != restore.Advanced || plan.Observed != observed || plan.ObservedIn != "account.fence" || plan.Target != target || plan.Skipped != target-second.Token ||
			plan.Traffic.Locks != 2 || plan.Traffic.Sessions != 2 || !sign(plan, "timeline") || !sign(plan, "paydb_ahead") {
			t.Fatalf("plan: %+v", plan)
		}
		result := forward(t, s, options())
		if result.Outcome != restore.Advanced || !result.Moved || !result.GateOpen || result.From != second.Token || result.To != target ||
			result.SessionsVoided != 2 || result.LocksVoided != 2 || len(result.Floors) != 2 || result.Mark == "" || !result.Verification.Safe || len(result.Next) == 0 {
			t.Fatalf("result: %+v", result)
		}
		for sql, want := range map[string]int64{
			`SELECT count(*) FROM lock_session`: 0,
			`SELECT count(*) FROM lock_revocation WHERE operator = 'erin' AND prev_token IN (SELECT fencing_token FROM lock_grant)`: 2,
			`SELECT count(*) FROM lock_grant WHERE ended = 'voided'`:                                                                2,
			`SELECT count(*) FROM operator_log WHERE action = 'fast_forward' AND (details->>'observed')::bigint = 90000`:            1,
			`SELECT count(*) FROM operator_log WHERE details->'evidence' @> '[{"source": "account.fence", "value": 90000}]'`:        1,
			`SELECT token FROM operator_log ORDER BY id DESC LIMIT 1`:                                                               int64(target),
		} {
			if got := one[int64](t, w.lock, sql); got != want {
				t.Errorf("%s: %d, want %d", sql, got, want)
			}
		}
		if got := one[int64](t, w.pay, `SELECT min(floor_token) FROM fence_floor`); got != int64(target) {
			t.Errorf("the lower floor is %d", got)
		}
		if state, err := w.mark.Read(); err != nil || state.Ceiling != target {
			t.Errorf("the mark is %+v, %v", state, err)
		}
		if audit, err := store.VerifyAudit(t.Context()); err != nil || len(audit.Findings) != 0 {
			t.Errorf("the audit: %+v, %v", audit, err)
		}
		if _, err := store.Renew(t.Context(), "a", first.Token, 1e9); !errors.Is(err, lockstore.ErrLockLost) {
			t.Errorf("a voided lease: %v", err)
		}
		if again := forward(t, s, options()); again.Outcome != restore.Safe || again.Moved || again.To != target {
			t.Errorf("again: %+v", again)
		}
		if grant := hold(t, store, "a"); grant.Token <= target {
			t.Errorf("token %d was issued, the target was %d", grant.Token, target)
		}
		// Its token has a partition, so that DEFAULT stays empty.
		if got := one[int64](t, w.lock, `SELECT count(*) FROM lock_grant_default`); got != 0 {
			t.Errorf("%d grants are in DEFAULT", got)
		}
		v, err := restore.Verify(t.Context(), s, options())
		if err != nil || v.Safe {
			// The mark was not asked: the grantor of this test keeps none.
			t.Errorf("a grant above the mark: %+v, %v", v, err)
		}
	})
}

func sign(plan restore.Plan, id string) bool {
	for _, s := range plan.Signs {
		if s.ID == id {
			return true
		}
	}
	return false
}

// The same backup restored a second time has no record of the first fast-forward,
// but paydb's floors have: it lands above it. So does one that follows a grant.
//
// Clauses: K-7.2, K-7.3
// Mutation: take a value for one's own without its record: slices.Contains in assess.
func TestSameBackupRestoredTwice(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		store := w.grantor(t)
		last := hold(t, store, "a").Token
		w.rewound(t, int64(last))
		s := w.stores(t, how{})
		once := forward(t, s, options())

		// The second restore: everything lockdb wrote since is gone.
		w.rewound(t, int64(last))
		exec(t, w.lock, `ALTER TABLE operator_log DISABLE TRIGGER ALL; DELETE FROM operator_log; ALTER TABLE operator_log ENABLE TRIGGER ALL; ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only`)
		twice := forward(t, s, options())
		if twice.Outcome != restore.Advanced || twice.To != once.To+restore.DefaultMargin {
			t.Errorf("the second restore went to %d, the first to %d", twice.To, once.To)
		}
		// Its own record makes the same floors no evidence.
		if again := forward(t, s, options()); again.Outcome != restore.Safe {
			t.Errorf("again: %+v", again)
		}
		granted := hold(t, store, "a").Token
		if after := forward(t, s, options()); after.Outcome != restore.Advanced || after.To != granted+restore.DefaultMargin || after.LocksVoided != 1 {
			t.Errorf("after a grant: %+v", after)
		}
		// Backups of later days have the record, and another timeline.
		exec(t, w.lock, `UPDATE lock_gate SET timeline_id = timeline_id + 1`)
		exec(t, w.lock, `ALTER TABLE operator_log DISABLE TRIGGER ALL; UPDATE operator_log SET timeline_id = timeline_id + 1; ALTER TABLE operator_log ENABLE TRIGGER ALL; ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only`)
		later := forward(t, s, options())
		if want := granted + 2*restore.DefaultMargin; later.To != want {
			t.Errorf("restored with the record of another timeline: %d, want %d", later.To, want)
		}
	})
}

// A mark that was lost or damaged is a source that is missing; who goes on without
// it gets a new one at the target, and the damaged one is kept beside it.
//
// Clauses: K-7.6, K-7.2
// Mutation: drop Replace from raiseMark.
func TestLostMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	s, opts := w.stores(t, how{}), options()
	opts.AcceptMissing = []string{"outside_mark"}
	for name, damage := range map[string]func() error{
		"lost":    func() error { return os.Remove(w.mark.Path()) },
		"damaged": func() error { return os.WriteFile(w.mark.Path(), []byte("{}"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if result := forward(t, s, options()); result.Outcome != restore.RefusedEvidence || !slices.Equal(result.Plan.Missing, []string{"outside_mark"}) {
			t.Errorf("%s: %s, missing %q", name, result.Outcome, result.Plan.Missing)
		}
		opts.Observed += 1 << 40 // so that there is something to do
		result := forward(t, s, opts)
		if state, err := w.mark.Read(); err != nil || result.Outcome != restore.Advanced || state.Ceiling != result.To {
			t.Errorf("%s, accepted: %s to %s, the mark is %+v, %v", name, result.Outcome, result.To, state, err)
		}
	}
}

// A fence that was drawn is evidence, whatever this instance recorded; what an
// operator or an old primary knows counts like the rest.
//
// Clauses: K-7.2, K-3.2
// Mutation: take fence_account, or an identity, out of rewind_evidence_log.sql.
func TestEvidenceFromOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	s := w.stores(t, how{})
	exec(t, w.lock, `INSERT INTO operator_log (action, operator, reason, token) VALUES ('fence_account', 'erin', 'why', 5000)`)
	for _, tt := range []struct {
		name   string
		want   lockstore.Token
		in     string
		change func(*restore.Stores, *restore.Options)
	}{
		{"F", 5000, "operator_log.token", func(*restore.Stores, *restore.Options) {}},
		{"observed", 6000, "operator", func(_ *restore.Stores, o *restore.Options) { o.Observed = 6000 }},
		{"old primary", 7000, "old_primary", func(s *restore.Stores, _ *restore.Options) { s.Old = &lockstore.OldPrimary{Last: 7000} }},
	} {
		s, opts := s, options()
		tt.change(&s, &opts)
		plan, err := restore.Prepare(t.Context(), s, opts)
		if err != nil || plan.Observed != tt.want || plan.ObservedIn != tt.in {
			t.Errorf("%s: observed %d in %s, %v", tt.name, plan.Observed, plan.ObservedIn, err)
		}
	}
	// What this very instance reached is nobody's grant; what it reached in another
	// life may have been granted above.
	observed := func(want lockstore.Token) {
		t.Helper()
		if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || plan.Observed != want {
			t.Errorf("observed %d in %s, want %d, %v", plan.Observed, plan.ObservedIn, want, err)
		}
	}
	exec(t, w.lock, `INSERT INTO operator_log (action, operator, reason, token) VALUES ('fast_forward', 'erin', 'why', 8000)`)
	observed(5000)
	exec(t, w.lock, `ALTER TABLE operator_log DISABLE TRIGGER operator_log_append_only`)
	exec(t, w.lock, `UPDATE operator_log SET timeline_id = timeline_id + 1`)
	observed(8000)
	exec(t, w.lock, `UPDATE operator_log SET timeline_id = timeline_id - 1, system_identifier = system_identifier + 1`)
	observed(8000)
	s.Old = &lockstore.OldPrimary{Last: 7000, Granting: true}
	if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || plan.Outcome != restore.RefusedTraffic || len(plan.Fixes) != 1 {
		t.Errorf("the old primary goes on: %+v, %v", plan, err)
	}
}
