package app

import (
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// unfinishedRules are those of a restore that was begun: that outranks whatever
// broke it off.
func unfinishedRules() []rule {
	return []rule{
		typed("CutOffError", Unknown, "cut_off", func(e *restore.CutOffError) (string, any) {
			hint := "run dlockctl restore fast-forward --reason TEXT again: it completes what was begun"
			if e.Granting() && e.Step != restore.StepCloseGate {
				hint = "see whether all is done: dlockctl restore verify"
			}
			return hint, map[string]string{"step": string(e.Step)}
		}),
		typed("UnknownOutcomeError", Unknown, "outcome_unknown", func(*owner.UnknownOutcomeError) (string, any) {
			return "it may have been done: look with dlockctl restore plan; running it again is safe", nil
		}),
	}
}

// restoreRules are the rows of the restore order's errors.
func restoreRules(unreachableHint string) []rule {
	return []rule{
		typed("StalePlanError", Refused, "stale_plan", func(e *restore.StalePlanError) (string, any) {
			return "make a new plan, and look at what has moved", map[string][]string{"moved": e.Moved}
		}),
		typed("PlanFileError", Usage, "plan_file", func(*restore.PlanFileError) (string, any) { return "dlockctl restore plan --out FILE", nil }),
		typed("ThawRefusedError", Refused, "thaw_refused", func(e *restore.ThawRefusedError) (string, any) { return e.Hint(), nil }),
		typed("TakenOverError", Refused, "gate_moved", func(e *restore.TakenOverError) (string, any) {
			if e.Gate.Open() {
				return "see that all is done: dlockctl restore verify", map[string]string{"step": string(e.Step)}
			}
			return "let the other one end, then look with dlockctl restore plan", map[string]string{"step": string(e.Step)}
		}),
		typed("GateMovedError", Refused, "gate_moved", func(*lockstore.GateMovedError) (string, any) {
			return "somebody else moved the gate meanwhile: look with dlockctl restore plan", nil
		}),
		sentinel("ErrLockdbFirst", restore.ErrLockdbFirst, Refused, "lockdb_first", "run: dlockctl restore plan"),
		sentinel("ErrNoPaydb", restore.ErrNoPaydb, Refused, "no_paydb", "give its address with --pay-dsn-file"),
		typed("UnresolvedError", Refused, "unresolved_payouts", func(e *floor.UnresolvedError) (string, any) {
			return "ask the rail about each: dlockctl payout resolve ID --from-rail", map[string]int64{"payouts": e.Payouts}
		}),
		sentinel("ErrMissing", mark.ErrMissing, Refused, "mark_missing",
			"give the folder it is in with --mark-dir; lost, it is made anew by dlockctl restore fast-forward --accept-missing outside_mark --reason TEXT"),
		typed("DamagedError", Refused, "mark_damaged", func(e *mark.DamagedError) (string, any) {
			return "it is made anew by dlockctl restore fast-forward --accept-missing outside_mark --reason TEXT", map[string]string{"path": e.Path}
		}),
		typed("BlockedError", Held, "blocked", func(e *owner.BlockedError) (string, any) {
			return "an open transaction is in the way; end it and try again", map[string]any{"blockers": e.Blockers}
		}),
		typed("RightsError", Refused, "permission_denied", func(e *owner.RightsError) (string, any) {
			return "run what is missing as a stronger role, or log in as one with dlock_operator", map[string]any{"login": e.Login, "missing": e.Missing}
		}),
		typed("UnreachableError", Unreachable, "unreachable", func(*owner.UnreachableError) (string, any) { return unreachableHint, nil }),
	}
}
