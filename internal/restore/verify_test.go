package restore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/restore"
)

// What the last look finds keeps lockdb shut, and is told with what helps; the rerun
// goes above it and opens.
//
// Clauses: K-7.2, K-7.4
// Mutation: open the gate whatever verify found; look again with the evidence from before.
func TestVerifyFailed(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		const above = 1 << 40
		s, opts := w.stores(t, how{}), options()
		opts.Progress = func(step restore.Step) {
			if step == restore.StepVerify {
				w.observed(t, above)
			}
		}
		result := forward(t, s, opts)
		if result.Outcome != restore.VerifyFailed || result.Step != restore.StepVerify || result.GateOpen || result.Verification == nil || result.Verification.Safe {
			t.Fatalf("a token above the target: %+v", result)
		}
		if len(result.Why) != 1 || !strings.Contains(result.Why[0], "account.fence has token 1099511627776") || !slices.Equal(result.Fixes, []string{"dlockctl restore plan"}) {
			t.Errorf("why %q, fixes %q", result.Why, result.Fixes)
		}
		if err := tryGrant(t, w.grantor(t)); !isClosed(err) {
			t.Errorf("a grant was answered %v", err)
		}
		if v, err := restore.Verify(t.Context(), s, options()); err != nil || v.Safe || len(v.Findings) != 2 || v.Findings[0].ID != "gate_closed" || v.Findings[1].ID != "evidence_above" {
			t.Errorf("verify: %+v, %v", v.Findings, err)
		}
		if again := forward(t, s, options()); again.Outcome != restore.Advanced || !again.GateOpen || again.To != above+restore.DefaultMargin {
			t.Errorf("the rerun: %+v", again)
		}
		if grant := hold(t, w.grantor(t), "a"); grant.Token <= above {
			t.Errorf("token %d was issued", grant.Token)
		}
	})
}
