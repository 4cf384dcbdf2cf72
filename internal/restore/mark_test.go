package restore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/restore"
)

// A mark that could not be raised is found out before the gate is closed, not behind it.
//
// Clauses: K-7.4, K-7.6
// Mutation: drop Writable from (*run).prepare.
func TestUnwritableMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.rewound(t, 5)
	s := w.stores(t, how{})
	if err := os.RemoveAll(filepath.Dir(w.mark.Path())); err != nil {
		t.Fatal(err)
	}
	opts := options()
	opts.AcceptMissing = []string{"outside_mark"}
	gate := `SELECT g::text FROM lock_gate g`
	before := one[string](t, w.lock, gate)
	result := forward(t, s, opts)
	if result.Outcome != restore.RefusedConfig || result.Step != restore.StepEvidence || !strings.Contains(fmt.Sprint(result.Why, result.Fixes), "--mark-dir") {
		t.Errorf("%s at %q: %q, %q", result.Outcome, result.Step, result.Why, result.Fixes)
	}
	if after := one[string](t, w.lock, gate); after != before {
		t.Errorf("the gate was %s and is %s", before, after)
	}
}

// What the outside mark saw shown is a sign that lockdb was set back, to plan and verify
// alike; the rest of its ceiling is not.
//
// Clauses: K-7.6
// Mutation: drop mark_ahead from verify, or compare the ceiling.
func TestVerifySeesWhatTheMarkSaw(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	s := w.stores(t, how{})
	last := hold(t, w.grantor(t), "a").Token
	for _, ahead := range []bool{false, true} {
		shown := last
		if ahead {
			shown++
		}
		_, reached := w.mark.Reach(t.Context(), shown)
		_, raised := w.mark.Raise(t.Context(), last+500)
		if err := errors.Join(reached, raised); err != nil {
			t.Fatal(err)
		}
		v, err := restore.Verify(t.Context(), s, options())
		if err != nil || v.Safe == ahead || len(v.Findings) > 0 != ahead || ahead && v.Findings[0].ID != "mark_ahead" {
			t.Errorf("%s was shown, %s is the last: safe %v, %+v, %v", shown, last, v.Safe, v.Findings, err)
		}
		plan, err := restore.Prepare(t.Context(), s, options())
		if err != nil || sign(plan, "mark_ahead") != ahead {
			t.Errorf("%s was shown, %s is the last: %+v, %v", shown, last, plan.Signs, err)
		}
	}
}
