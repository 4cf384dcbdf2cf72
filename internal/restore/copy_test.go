package restore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/restore"
)

// A plain copy that was made right after a fast-forward, and put back, looks like the
// lockdb that it was: the last record is that fast-forward, and nothing shows what was
// granted since to those who have not used it yet. By the operator's word it is moved
// past all of it.
//
// Clauses: K-7.2, K-7.3, K-7.6
// Mutation: leave Again out of assess, or of Prepare.
func TestCopyOfQuietLockdb(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	s := w.stores(t, how{})
	hold(t, w.grantor(t), "a")
	copied := forward(t, s, options()).To
	lost := copied + 1 // the copy's next one, too
	if again := forward(t, s, options()); again.Outcome != restore.Safe {
		t.Fatalf("%s %q; this test shows nothing", again.Outcome, again.Why)
	}
	opts := options()
	opts.Again = true
	result := forward(t, s, opts)
	if result.Outcome != restore.Advanced || !result.GateOpen || result.To != copied+restore.DefaultMargin {
		t.Errorf("%s to %s, want %s", result.Outcome, result.To, copied+restore.DefaultMargin)
	}
	if grant := hold(t, w.grantor(t), "b"); grant.Token <= lost {
		t.Errorf("token %s was granted, and %s may be in somebody's hands", grant.Token, lost)
	}
	plan, err := restore.Prepare(t.Context(), s, opts)
	if err != nil {
		t.Fatal(err)
	}
	without := options()
	without.Plan = &plan
	if _, err := restore.FastForward(t.Context(), s, without); !strings.Contains(errText(err), "--again") {
		t.Errorf("a plan that was made with the word, carried out without it: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A sequence that was set back by a hand, or left out of a dump, lies below what lockdb
// itself knows: a lock that stands, or a fast-forward that it recorded. The plan has a
// sign of it, verify a finding, paydb's floors are not brought to it, and a fast-forward
// puts it right.
//
// Clauses: K-7.2, K-7.6, K-7.9
// Mutation: drop lockdb_ahead from signs, sequence_low from verify, or lockdb's own
// evidence from lastOfSafe.
func TestSequenceBelowWhatLockdbKnows(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s := w.stores(t, how{})
		shows := func(name, finding string) {
			t.Helper()
			plan, err := restore.Prepare(t.Context(), s, options())
			if err != nil || !sign(plan, "lockdb_ahead") || plan.Outcome != restore.Advanced {
				t.Errorf("%s: %s, signs %+v, %v", name, plan.Outcome, plan.Signs, err)
			}
			if v, err := restore.Verify(t.Context(), s, options()); err != nil || !slices.ContainsFunc(v.Findings, func(f restore.Finding) bool { return f.ID == finding }) {
				t.Errorf("%s: %+v, %v; want %s", name, v.Findings, err, finding)
			}
			if _, err := restore.RepairPaydb(t.Context(), s, options()); !errors.Is(err, restore.ErrLockdbFirst) {
				t.Errorf("%s: paydb's floors go to it: %v", name, err)
			}
			if auto, err := restore.AutoSafe(t.Context(), s, restore.AutoOptions{Operator: "lock-server"}); err != nil || auto.Verdict != restore.AutoRefused {
				t.Errorf("%s: left to no person: %+v, %v", name, auto, err)
			}
			if result := forward(t, s, options()); result.Outcome != restore.Advanced || !result.GateOpen {
				t.Errorf("%s: %+v", name, result)
			}
			if v, err := restore.Verify(t.Context(), s, options()); err != nil || !v.Safe {
				t.Errorf("%s: afterwards: %+v, %v", name, v.Findings, err)
			}
		}
		held := hold(t, w.grantor(t), "a").Token
		exec(t, w.lock, `SELECT setval('fencing_token_seq', $1)`, int64(held)-1)
		shows("below a lock", "evidence_above")
		exec(t, w.lock, `SELECT setval('fencing_token_seq', last_value - 1000) FROM fencing_token_seq`)
		shows("below a fast-forward", "sequence_low")
	})
}

// What verify was not shown it does not call safe: without paydb nobody knows whether its
// floors refuse those from before a fast-forward. A plan says so beside its SAFE.
//
// Clauses: K-7.8
// Mutation: drop floor_unknown from payments, or floorsUnknown from Prepare.
func TestFloorsThatWereNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	opts := options()
	opts.AcceptMissing = []string{"paydb"}
	s := w.stores(t, how{noPay: true})
	if v, err := restore.Verify(t.Context(), s, opts); err != nil || !v.Safe {
		t.Errorf("before any fast-forward: %+v, %v", v.Findings, err)
	}
	if result := forward(t, s, opts); result.Outcome != restore.Advanced || !result.GateOpen {
		t.Fatalf("without paydb: %+v", result)
	}
	if v, err := restore.Verify(t.Context(), s, opts); err != nil || len(v.Findings) != 1 || v.Findings[0].ID != "floor_unknown" {
		t.Errorf("after one without paydb: %+v, %v", v.Findings, err)
	}
	if plan, err := restore.Prepare(t.Context(), s, opts); err != nil || plan.Outcome != restore.Safe || !strings.Contains(strings.Join(plan.Why, " "), "paydb is out of reach") {
		t.Errorf("once more: %s %q, %v", plan.Outcome, plan.Why, err)
	}
}
