package restore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// Frozen, lockdb grants nothing and says who froze it; thawed, it grants again; both
// leave their record. A freeze waits for grants under way, and names one that does
// not end.
//
// Clauses: K-7.4, K-7.7
// Mutation: leave the record out of CloseGate or OpenGate, or the barrier out of Freeze.
func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		store, s := w.grantor(t), w.stores(t, how{timeout: naming})
		by := restore.GateOptions{Operator: "erin", Reason: "an incident"}
		grant := hold(t, store, "a")
		for range 2 { // the second one changes nothing
			frozen, err := restore.Freeze(t.Context(), s.Lock, by)
			if err != nil || frozen.Open || frozen.Gate.ClosedBy != "erin" {
				t.Fatalf("freeze: %+v, %v", frozen, err)
			}
		}
		err := tryGrant(t, store)
		closed, ok := errors.AsType[*lockstore.GrantsClosedError](err)
		if !ok || !strings.Contains(closed.Reason, "an incident") || !strings.Contains(closed.Hint, "thaw") {
			t.Errorf("a grant while frozen: %v", err)
		}
		if _, err := store.Renew(t.Context(), "a", grant.Token, time.Hour); err != nil {
			t.Errorf("a renewal while frozen: %v", err)
		}
		if thawed, err := restore.Thaw(t.Context(), s.Lock, by); err != nil || !thawed.Open || !thawed.Changed {
			t.Fatalf("thaw: %+v, %v", thawed, err)
		}
		if thawed, err := restore.Thaw(t.Context(), s.Lock, by); err != nil || !thawed.Open || thawed.Changed {
			t.Errorf("thaw again: %+v, %v", thawed, err)
		}
		if err := tryGrant(t, store); err != nil {
			t.Errorf("a grant after the thaw: %v", err)
		}
		if got := one[string](t, w.lock, `SELECT string_agg(action, ' ' ORDER BY id) FROM operator_log`); got != "freeze thaw" {
			t.Errorf("the records are %q", got)
		}
		_, pid := openTransaction(t, w.dbs.Lock.Conn(t, "super"), `UPDATE lock_entry SET expires_at = expires_at + interval '1 s'`)
		if frozen, err := restore.Freeze(t.Context(), s.Lock, by); err != nil || frozen.Open || len(frozen.Blockers) != 1 || frozen.Blockers[0].PID != pid {
			t.Errorf("freeze beside an open transaction: %+v, %v", frozen, err)
		}
	})
}

// A thaw opens neither a lockdb that was set back nor one whose fast-forward was cut
// off, and names what does. A freeze outlives a fast-forward.
//
// Clauses: K-7.4, K-7.6
// Mutation: drop a case of Thaw, or let rewind_open_after_run.sql clear closed_by.
func TestThawIsNoFastForward(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s := w.stores(t, how{})
		by := restore.GateOptions{Operator: "erin", Reason: "an incident"}
		if _, err := restore.Freeze(t.Context(), s.Lock, by); err != nil {
			t.Fatal(err)
		}
		refused := func(name, command string) {
			t.Helper()
			_, err := restore.Thaw(t.Context(), s.Lock, by)
			if e, ok := errors.AsType[*restore.ThawRefusedError](err); !ok || !strings.Contains(e.Hint(), command) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.rewound(t, 3)
		refused("restored", "restore plan")
		names := statementsBefore(t, "advance: commit")
		dies(t, w, names)
		refused("cut off", "restore fast-forward")
		if v, err := restore.Verify(t.Context(), s, options()); err != nil || v.Safe || v.Findings[0].ID != "gate_closed" {
			t.Errorf("verify: %+v, %v", v, err)
		}
		result := forward(t, s, options())
		if result.Outcome != restore.Advanced || result.GateOpen || !strings.Contains(strings.Join(result.Next, " "), "thaw") {
			t.Errorf("a fast-forward while frozen: %+v", result)
		}
		if thawed, err := restore.Thaw(t.Context(), s.Lock, by); err != nil || !thawed.Open {
			t.Errorf("thaw: %+v, %v", thawed, err)
		}
		if v, err := restore.Verify(t.Context(), s, options()); err != nil || !v.Safe {
			t.Errorf("verify: %+v, %v", v, err)
		}
		exec(t, w.lock, `DELETE FROM lock_gate`)
		refused("no row", "restore fast-forward")
		if result := forward(t, s, options()); result.Outcome != restore.Advanced || !result.GateOpen {
			t.Errorf("a fast-forward without the gate's row: %+v", result)
		}
	})
}

// statementsBefore counts the statements of a fast-forward up to one, on a world of
// its own.
func statementsBefore(t *testing.T, name string) int {
	t.Helper()
	for n, ran := range statements(t, newWorld(t, 16)) {
		if ran == name {
			return n
		}
	}
	t.Fatalf("no statement is called %s", name)
	return 0
}

// Two fast-forwards at once: one opens the gate, the other is told who has taken over
// and whether lockdb grants, as it is then, whatever step it was at; and what stands is
// safe.
//
// Clauses: K-7.4
// Mutation: drop "WHERE run_id" from rewind_open_after_run.sql; return what end made of the
// step without reading the gate again.
func TestTwoFastForwardsAtOnce(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		first := w.stores(t, how{})
		at := func(step restore.Step, do func()) (restore.Result, error) {
			opts, once := options(), sync.Once{}
			opts.Progress = func(s restore.Step) {
				if s == step {
					once.Do(do)
				}
			}
			return restore.FastForward(t.Context(), first, opts)
		}
		result, err := at(restore.StepVerify, func() {
			// Another one closes the gate anew, and is cut off.
			if _, err := first.Lock.CloseGate(t.Context(), lockstore.GateChange{Operator: "mallory", Reason: "me too", Run: "20000000-0000-4000-8000-000000000002"}); err != nil {
				t.Error(err)
			}
		})
		taken, ok := errors.AsType[*restore.TakenOverError](err)
		if !ok || result.GateOpen || taken.Gate.Open() || !strings.Contains(err.Error(), "mallory") || !strings.Contains(err.Error(), "grants nothing") {
			t.Fatalf("closed anew: %s %q, open %v, %v", result.Outcome, result.Why, result.GateOpen, err)
		}
		if _, err := first.Lock.OpenGate(t.Context(), lockstore.GateChange{Operator: "erin", Reason: "r", Run: "30000000-0000-4000-8000-000000000003"}); !isMoved(err) {
			t.Errorf("opened by another run: %v", err)
		}
		if err := tryGrant(t, w.grantor(t)); !isClosed(err) {
			t.Errorf("a grant was answered %v", err)
		}
		if result := forward(t, first, options()); result.Outcome != restore.Advanced || result.Moved || !result.GateOpen {
			t.Errorf("the rerun: %+v", result)
		}

		for _, step := range []restore.Step{restore.StepBarrier, restore.StepAdvance, restore.StepFloorAccount, restore.StepVerify, restore.StepOpenGate} {
			w.observed(t, one[int64](t, w.lock, `SELECT last_value + 9 FROM fencing_token_seq`)) // there is something to do
			result, err := at(step, func() { forward(t, w.stores(t, how{}), options()) })
			if taken, ok := errors.AsType[*restore.TakenOverError](err); !ok || !result.GateOpen || !taken.Gate.Open() || strings.Contains(err.Error(), "grants nothing") {
				t.Errorf("completed by another one at %s: open %v, %v", step, result.GateOpen, err)
			}
			if err := tryGrant(t, w.grantor(t)); err != nil {
				t.Errorf("completed by another one at %s: a grant was answered %v", step, err)
			}
			if v, err := restore.Verify(t.Context(), w.stores(t, how{}), options()); err != nil || slices.ContainsFunc(v.Findings, func(f restore.Finding) bool { return f.ID != "mark_low" }) {
				t.Errorf("completed by another one at %s: %+v, %v", step, v.Findings, err)
			}
		}
	})
}

func isMoved(err error) bool {
	_, ok := errors.AsType[*lockstore.GateMovedError](err)
	return ok
}

// Broken off, a fast-forward says whether lockdb grants, as it is then: while the gate is
// being closed nothing was changed; from the next step on nothing is granted.
//
// Mutation: return a CutOffError for other in end; leave GateOpen out of unblock, or the step
// out of (*CutOffError).grants.
func TestCutOffSaysWhetherLocksAreGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	for step, open := range map[restore.Step]bool{restore.StepCloseGate: true, restore.StepBarrier: false, restore.StepOpenGate: false} {
		w.observed(t, one[int64](t, w.lock, `SELECT last_value + 9 FROM fencing_token_seq`)) // there is something to do
		ctx, cancel := context.WithCancel(t.Context())
		opts := options()
		opts.Progress = func(s restore.Step) {
			if s == step {
				cancel()
			}
		}
		_, err := restore.FastForward(ctx, w.stores(t, how{}), opts)
		cancel()
		if _, cut := errors.AsType[*restore.CutOffError](err); cut == open || err == nil || strings.Contains(err.Error(), "grants nothing") == open {
			t.Errorf("%s: %v", step, err)
		}
		after := w.stores(t, how{}) // the connection went with the context
		if gate, err := after.Lock.Gate(t.Context()); err != nil || gate.Open() != open {
			t.Errorf("%s: open %v, %v", step, gate.Open(), err)
		}
		forward(t, after, options())
	}
	_, pid := openTransaction(t, w.dbs.Lock.Conn(t, "super"), `SELECT FROM lock_gate FOR UPDATE`)
	w.observed(t, one[int64](t, w.lock, `SELECT last_value + 9 FROM fencing_token_seq`))
	result := forward(t, w.stores(t, how{timeout: naming}), options())
	if result.Outcome != restore.LockTimeout || result.Step != restore.StepCloseGate || !result.GateOpen || len(result.Blockers) != 1 || result.Blockers[0].PID != pid || strings.Contains(result.Fixes[0], "grants nothing") {
		t.Errorf("somebody holds the gate's row: %+v", result)
	}
	for step, says := range map[restore.Step]string{
		restore.StepCloseGate: "may still be granting", restore.StepAdvance: "grants nothing until it is run again", restore.StepOpenGate: "may be granting already",
	} {
		if err := (&restore.CutOffError{Step: step, Err: errors.New("cut")}).Error(); !strings.Contains(err, says) {
			t.Errorf("%s, with a gate that cannot be read: %s", step, err)
		}
	}
}
