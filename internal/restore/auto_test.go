package restore_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

const auto = "lock-server (restore.auto)"

// failedOver makes lockdb what the promotion of a standby leaves: a timeline above the
// gate's, and a sequence that has forgotten, below the mark's ceiling.
func (w *world) failedOver(t *testing.T) {
	t.Helper()
	exec(t, w.lock, `UPDATE lock_gate SET timeline_id = timeline_id - 1`)
	if _, err := w.mark.Raise(t.Context(), 5_000_000); err != nil {
		t.Fatal(err)
	}
}

// After a fail-over it lands above the mark's ceiling and what the process itself has
// shown, refuses every token up to there, opens the gate and leaves the same records
// as a person; and there is nothing left to do for the next one who asks.
//
// Clauses: K-7.10, K-7.2, K-7.4, K-7.7, K-7.8
// Mutation: leave the mark or Observed out of what AutoSafe asks for; raise the
// ceiling alone in raiseMark.
func TestAutoSafe(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s := w.stores(t, how{})
		hold(t, w.grantor(t), "a")
		w.failedOver(t)
		opts := restore.AutoOptions{Operator: auto, Observed: 6_000_000}
		out, err := restore.AutoSafe(t.Context(), s, opts)
		if err != nil || out.Verdict != restore.AutoAdvanced || out.Result == nil || !out.Result.GateOpen || out.Result.To != 6_000_000+restore.DefaultMargin {
			t.Fatalf("%+v, %v", out, err)
		}
		if state, err := w.mark.Read(); err != nil || state.Ceiling != out.Result.To || state.Issued != out.Result.To {
			t.Errorf("the mark says %+v, %v: who grants on the primary of before would not hear of it", state, err)
		}
		if grant := hold(t, w.grantor(t), "b"); grant.Token <= out.Result.To {
			t.Errorf("token %s, after a fast-forward to %s", grant.Token, out.Result.To)
		}
		if got := one[int64](t, w.pay, `SELECT min(floor_token) FROM fence_floor`); got != int64(out.Result.To) {
			t.Errorf("the lower floor is %d", got)
		}
		said := one[string](t, w.lock, `SELECT string_agg(action || ': ' || reason, ', ' ORDER BY id) FROM operator_log WHERE operator = $1`, auto)
		if want := "fast_forward: restore.auto = safe: timeline 1, after 0, fast_forward_done: restore.auto = safe: timeline 1, after 0"; said != want {
			t.Errorf("the operator log says %q, want %q", said, want)
		}
		records := one[int](t, w.lock, `SELECT count(*) FROM operator_log`)
		again, err := restore.AutoSafe(t.Context(), s, opts)
		if err != nil || again.Verdict != restore.AutoNotNeeded || one[int](t, w.lock, `SELECT count(*) FROM operator_log`) != records {
			t.Errorf("once more: %+v, %v", again, err)
		}
	})
}

// What it does not know, or what is no fail-over, it leaves to a person: nothing is
// changed, and the reason is said.
//
// Clauses: K-7.10, K-7.2
// Mutation: drop any case of forPerson.
func TestAutoSafeLeavesItToAPerson(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world)
		how    how
		why    string
	}{
		"the mark is missing": {func(t *testing.T, w *world) {
			if err := os.Remove(w.mark.Path()); err != nil {
				t.Fatal(err)
			}
		}, how{}, "outside_mark could not be read"},
		"the mark is damaged": {func(t *testing.T, w *world) {
			if err := os.WriteFile(w.mark.Path(), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, how{}, "outside_mark could not be read"},
		"no mark was ever made": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE outside_mark SET kept = false, kept_since = NULL`)
			if err := os.Remove(w.mark.Path()); err != nil {
				t.Fatal(err)
			}
		}, how{}, "the outside mark was never made"},
		"no mark is configured": {nil, how{noMark: true}, "no outside mark is kept"},
		"paydb is out of reach": {nil, how{noPay: true}, "account.fence could not be read: paydb is down"},
		"a source of paydb cannot be read": {func(t *testing.T, w *world) {
			exec(t, w.pay, `REVOKE SELECT ON payout_claim FROM dlock_operator`)
		}, how{}, "payout_claim.claim_token could not be read"},
		"paydb was set back as well": {func(t *testing.T, w *world) {
			exec(t, w.pay, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`)
			exec(t, w.pay, `UPDATE pay_gate SET timeline_id = timeline_id + 1`)
			exec(t, w.pay, `ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
		}, how{}, "paydb was set back itself"},
		"another system": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE lock_gate SET system_identifier = 7`)
		}, how{}, "the gate was opened on instance 7"},
		"an earlier timeline": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE lock_gate SET timeline_id = 9`)
		}, how{}, "the gate was opened on timeline 9, and this is 1"},
		"a copied data folder": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE lock_gate SET timeline_id = 1`)
			w.observed(t, 900)
		}, how{}, "its timeline is the same"},
		"no gate": {func(t *testing.T, w *world) { exec(t, w.lock, `DELETE FROM lock_gate`) }, how{}, "the gate's row is gone"},
		"frozen": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'ticket 812'`)
		}, how{}, "grants are frozen by erin: ticket 812"},
		"a person's fast-forward": {func(t *testing.T, w *world) {
			exec(t, w.lock, `UPDATE lock_gate SET run_id = gen_random_uuid(), run_by = 'erin', run_at = now() - interval '1 day', run_reason = 'r'`)
		}, how{}, "a fast-forward that erin began"},
		"a token source that repeats": {func(t *testing.T, w *world) {
			exec(t, w.lock, `ALTER SEQUENCE fencing_token_seq CACHE 20`)
		}, how{}, "CACHE 20"},
		"a login without the right": {nil, how{login: "t_auditor"}, "the operator's login lacks a right"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 16)
			w.failedOver(t)
			if c.change != nil {
				c.change(t, w)
			}
			s := w.stores(t, c.how)
			state := `SELECT concat_ws(' ', (SELECT last_value FROM fencing_token_seq), (SELECT count(*) FROM operator_log), (SELECT g::text FROM lock_gate g))`
			before := one[string](t, w.lock, state)
			out, err := restore.AutoSafe(t.Context(), s, restore.AutoOptions{Operator: auto})
			if err != nil || out.Verdict != restore.AutoRefused || len(out.Fixes) == 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			if !slices.ContainsFunc(out.Why, func(why string) bool { return strings.Contains(why, c.why) }) {
				t.Errorf("it says %q, not %q", out.Why, c.why)
			}
			if after := one[string](t, w.lock, state); after != before {
				t.Errorf("it was %s and is %s", before, after)
			}
		})
	}
}

// Replicas that ask at once, and one that died in between: one of them completes it,
// the others are told that it is busy, and nothing is moved twice.
//
// Clauses: K-7.10, K-7.4
// Mutation: drop busy; take gate_moved for a refusal; or forget in decide that another
// fast-forward may have moved the sequence.
func TestAutoSafeOfManyReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.failedOver(t)
	exec(t, w.lock, `UPDATE lock_gate SET run_id = gen_random_uuid(), run_by = $1, run_at = now(), run_reason = 'r'`, auto)
	out, err := restore.AutoSafe(t.Context(), w.stores(t, how{}), restore.AutoOptions{Operator: auto})
	if err != nil || out.Verdict != restore.AutoBusy {
		t.Fatalf("a moment after another began: %+v, %v", out, err)
	}
	exec(t, w.lock, `UPDATE lock_gate SET run_at = now() - interval '5 minutes'`)
	const replicas = 4
	verdicts := make(chan restore.AutoVerdict, replicas)
	stores := make([]restore.Stores, replicas)
	for i := range stores {
		stores[i] = w.stores(t, how{})
	}
	for i := range replicas {
		go func() {
			for {
				out, err := restore.AutoSafe(t.Context(), stores[i], restore.AutoOptions{Operator: auto})
				if err != nil {
					t.Errorf("replica %d: %v", i, err)
				}
				if out.Verdict == restore.AutoRefused {
					t.Logf("replica %d: %q %+v", i, out.Why, out.Result)
				}
				if out.Verdict != restore.AutoBusy || err != nil || context.Cause(t.Context()) != nil {
					verdicts <- out.Verdict
					return
				}
			}
		}()
	}
	for range replicas {
		if got := <-verdicts; got != restore.AutoAdvanced && got != restore.AutoNotNeeded {
			t.Errorf("a replica ends with %s", got)
		}
	}
	moved := one[int](t, w.lock, `SELECT count(*) FROM operator_log WHERE action = $1`, lockstore.ActionFastForward)
	if moved != 1 || !one[bool](t, w.lock, `SELECT run_id IS NULL FROM lock_gate`) {
		t.Errorf("moved %d times", moved)
	}
}
