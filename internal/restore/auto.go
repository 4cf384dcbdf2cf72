package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// AutoVerdict says what became of a fast-forward without a person.
type AutoVerdict string

// The verdicts.
const (
	// AutoNotNeeded: lockdb grants, and nothing shows that it was set back.
	AutoNotNeeded AutoVerdict = "not_needed"
	// AutoAdvanced: it was moved forward, and grants again.
	AutoAdvanced AutoVerdict = "advanced"
	// AutoBusy: another process is at it. Ask again a little later.
	AutoBusy AutoVerdict = "busy"
	// AutoRefused: a person decides.
	AutoRefused AutoVerdict = "refused"
)

// patience is how long another process's run is taken to be under way, and not cut
// off. Too short and two take turns, of which one completes; too long and grants wait.
const patience = time.Minute

// AutoOptions are what a service says.
type AutoOptions struct {
	// Operator is who is named in the audit: the same for every replica of one
	// service, and nobody's who is a person.
	Operator string
	// Observed is the highest token that the process itself has shown, 0 for none.
	Observed lockstore.Token
	// Progress is told each step before it begins; nil for nobody.
	Progress func(Step)
}

// AutoOutcome is the answer of AutoSafe.
type AutoOutcome struct {
	Verdict AutoVerdict `json:"verdict"`
	// Why says what speaks for the verdict: for AutoRefused each reason why a person
	// has to decide. Fixes are what that person runs.
	Why   []string `json:"why"`
	Fixes []string `json:"fixes"`
	// Result is what was done, nil when nothing was begun.
	Result *Result `json:"result,omitempty"`
}

// AutoSafe is the policy restore.auto = safe (K-7.10): after a fail-over it moves
// lockdb above the outside mark's ceiling, and everything else that remembers tokens,
// and opens the gate, with the record in the operator log that a person's fast-forward
// leaves. It does so only where everything needed is known:
//
//   - the one sign is a timeline that has risen on the same instance's system: a
//     promotion, or a restore to a moment. A gate that came from another system, none
//     at all, a freeze, a person's fast-forward, tokens that are ahead without a new
//     timeline (a copied data folder, or the old primary come back) are a person's;
//   - the outside mark is there and readable: a ceiling that no primary's grants pass;
//   - every source of evidence was read, nothing is forged or accepted as missing;
//   - paydb, unless there is none by configuration, was not set back itself;
//   - the login may do it.
//
// An old primary that still runs is no reason to refuse, since nobody may be able to
// ask it: whoever grants through the mark stops there at the latest when it hears of
// the tokens above the target, and until then its tokens are refused at accounts and
// rail by the floors.
//
// The stores are those of FastForward, opened for changes. An error is one of
// FastForward's; grants stay refused, and calling it again is safe.
func AutoSafe(ctx context.Context, stores Stores, opts AutoOptions) (AutoOutcome, error) {
	what := Options{Operator: opts.Operator, Observed: opts.Observed, Progress: opts.Progress}
	if err := lockstore.ValidOperator(opts.Operator); err != nil {
		return AutoOutcome{}, err
	}
	plan, err := Prepare(ctx, stores, what)
	if err != nil {
		return AutoOutcome{}, err
	}
	switch {
	case plan.Gate.Open() && !isAhead(plan):
		return AutoOutcome{Verdict: AutoNotNeeded, Why: []string{"the gate is open, and nothing shows that lockdb was set back"}, Fixes: []string{}}, nil
	case busy(plan.Gate, opts.Operator):
		return AutoOutcome{Verdict: AutoBusy, Why: []string{fmt.Sprintf("a fast-forward of %s that began at %s is under way", plan.Gate.Run.By, plan.Gate.Run.At)}, Fixes: []string{}}, nil
	}
	if refused := forPerson(plan, stores, opts.Operator); len(refused.Why) > 0 {
		return AutoOutcome{Verdict: AutoRefused, Why: refused.Why, Fixes: refused.Fixes}, nil
	}
	what.Reason = fmt.Sprintf("restore.auto = safe: timeline %d, after %d", plan.Identity.Timeline, plan.Gate.OpenedOn.Timeline)
	result, err := FastForward(ctx, stores, what)
	if _, moved := errors.AsType[*lockstore.GateMovedError](err); moved {
		return AutoOutcome{Verdict: AutoBusy, Why: []string{err.Error()}, Fixes: []string{}, Result: &result}, nil
	}
	if err != nil {
		return AutoOutcome{}, err
	}
	out := AutoOutcome{Verdict: AutoRefused, Why: result.Why, Fixes: result.Fixes, Result: &result}
	switch {
	case result.Outcome == Advanced && result.GateOpen:
		out.Verdict = AutoAdvanced
	case result.Outcome == VerifyFailed && finds(result, "gate_moved"), result.Outcome == Safe:
		out.Verdict = AutoBusy // somebody else has completed it, or is about to
	case result.Outcome == Advanced:
		out.Why = []string{"lockdb was moved forward, and a person has frozen it meanwhile"}
		out.Fixes = []string{runThaw}
	}
	return out, nil
}

func finds(result Result, id string) bool {
	return result.Verification != nil && slices.ContainsFunc(result.Verification.Findings, func(f Finding) bool { return f.ID == id })
}

// isAhead tells that something has a token that lockdb's sequence has not issued.
func isAhead(plan Plan) bool {
	return slices.ContainsFunc(plan.Signs, func(s Sign) bool { return strings.HasSuffix(s.ID, "_ahead") })
}

// busy tells that another process of the same service has begun a moment ago.
func busy(gate lockstore.Gate, operator string) bool {
	return gate.Run != nil && gate.Run.By == operator && time.Since(gate.Run.At.Time) < patience
}

// forPerson collects every reason why a person has to decide.
func forPerson(plan Plan, stores Stores, operator string) *refusal {
	r := &refusal{}
	gate, here := plan.Gate, plan.Identity
	switch {
	case !gate.Present:
		r.add("the gate's row is gone", "dlockctl restore plan")
	case gate.OpenedOn.SystemIdentifier != here.SystemIdentifier:
		r.add(fmt.Sprintf("the gate was opened on instance %d, and this is %d: a dump restored elsewhere, or a replica, is no fail-over", gate.OpenedOn.SystemIdentifier, here.SystemIdentifier), "dlockctl restore plan")
	case gate.OpenedOn.Timeline > here.Timeline:
		r.add(fmt.Sprintf("the gate was opened on timeline %d, and this is %d: the primary of before is no fail-over", gate.OpenedOn.Timeline, here.Timeline), "dlockctl restore plan")
	case gate.Here && isAhead(plan):
		r.add("tokens are known that this lockdb has not issued, and its timeline is the same: a copied data folder, or the primary of before, is no fail-over", "dlockctl restore plan")
	}
	if gate.ClosedBy != "" {
		r.add(fmt.Sprintf("grants are frozen by %s: %s", gate.ClosedBy, gate.Reason), runThaw)
	}
	if gate.Run != nil && gate.Run.By != operator {
		r.add(fmt.Sprintf("a fast-forward that %s began at %s is under way or was cut off", gate.Run.By, gate.Run.At), runFastForward)
	}
	if stores.Mark == nil {
		r.add("no outside mark is kept, so nothing says how far the primary of before has granted", "set mark_dir, or run: "+runFastForward)
	}
	for _, e := range plan.Evidence {
		if e.Source == sourceMark && stores.Mark != nil && e.Status == lockstore.EvidenceEmpty {
			r.add("the outside mark was never made, so it says nothing of the primary of before", runFastForward)
		}
	}
	switch {
	case stores.NoPayments:
	case stores.Pay == nil: // its sources are missing, which says why
	case plan.Pay == nil:
		r.add("the gate of paydb could not be read", "dlockctl restore plan")
	case !plan.Pay.Open():
		r.add("paydb was set back itself, or its gate is closed", runRepairPaydb)
	}
	if plan.Outcome != Advanced {
		for i, why := range plan.Why {
			fix := ""
			if i < len(plan.Fixes) {
				fix = plan.Fixes[i]
			}
			r.add(why, fix)
		}
	}
	for _, sql := range plan.Rights {
		r.add("the operator's login lacks a right", sql)
	}
	return r
}
