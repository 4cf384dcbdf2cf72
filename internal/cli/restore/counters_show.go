package restore

import (
	"cmp"
	"slices"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// showCountersPlan prints a plan; next are the flags of the fast-forward that carries
// it out.
func showCountersPlan(a *app.App, plan counters.Plan, next []string) error {
	if err := printCountersPlan(a, plan, next); err != nil {
		return err
	}
	if plan.Outcome == restore.Safe || plan.Outcome == restore.Advanced {
		return nil
	}
	return failure(a, plan.Outcome, plan.Why, plan.Fixes, "a fast-forward would be refused")
}

func printCountersPlan(a *app.App, plan counters.Plan, next []string) error {
	if !a.ForPeople() {
		return printCounters(a, plan, plan.Keys)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	p.countersState(plan)
	p.keys(plan.Keys)
	p.part()
	switch {
	case plan.Outcome == restore.Safe:
		p.run("next", a.Command("restore verify"))
	case plan.Outcome != restore.Advanced:
		p.fixes("fix", plan.Fixes)
	case len(plan.Why) == 0:
		p.fact(ui.Plain, "next", "nothing; after a restore or a fail-over, which need not leave a sign, all the same:")
		p.run("", a.Command("restore fast-forward", append(next, "--reason", "TEXT")...))
	default:
		p.run("next", a.Command("restore fast-forward", append(next, "--reason", "TEXT")...))
	}
	return p.err
}

// printCounters prints for programs. CSV is a table of the keys, which --from reads
// again, and a name is the verdict.
func printCounters(a *app.App, data any, keys []counters.Key) error {
	view := ui.View{Data: data, Name: "outcome"}
	if a.Format() == ui.CSV {
		view.Rows = keys
		view.Columns = []ui.Column{
			{Field: "key"}, {Field: "fence_key"}, {Field: "counter"}, {Field: "lock_fence"}, {Field: "observed"}, {Field: "observed_in"}, {Field: "target"}, {Field: "state"},
		}
	}
	return a.Print(view)
}

// countersState is the verdict on the counters as they are, and what would be done.
func (p *page) countersState(plan counters.Plan) {
	switch {
	case plan.Behind > 0 || plan.Moved:
		p.verdict(ui.Alarm, "SET BACK", "SyncGuard may issue fences that are still in use, and nothing but you keeps it from granting now")
	case plan.Outcome == restore.Safe:
		p.verdict(ui.Good, "SAFE", "a fast-forward was completed here, and nothing has been granted since")
	default:
		p.verdict(ui.Good, "NO SIGN", "nothing shows that the counters were set back")
	}
	p.part()
	if plan.Outcome == restore.Advanced {
		for _, why := range plan.Why {
			p.fact(ui.Plain, "sign", "%s", why)
		}
	}
	p.fact(ui.Plain, "database", "instance %d, timeline %d", plan.Identity.SystemIdentifier, plan.Identity.Timeline)
	p.fact(ui.Plain, "counters", "%s; %s held", count(len(plan.Keys), "key"), count(plan.Held, "lock"))
	if plan.Exhausted > 0 {
		p.fact(ui.Warn, "exhausted", "%s at its end: no fence is left to be issued", count(plan.Exhausted, "counter"))
	}
	if plan.Foreign > 0 {
		p.fact(ui.Warn, "foreign", "%s that SyncGuard did not write, left as it stands: its name is not fence: and a key in NFC of at most 512 bytes", count(plan.Foreign, "row"))
	}
	switch plan.Outcome {
	case restore.Safe:
		p.fact(ui.Plain, "fast-forward", "would be SAFE: it changes nothing")
	case restore.Advanced:
		p.fact(ui.Plain, "fast-forward", "would be ADVANCED: %s would be raised, each %d above the highest fence known of its key", count(plan.Raise, "counter"), plan.Margin)
	default:
		p.fact(ui.Bad, "fast-forward", "would be %s", plan.Outcome)
		for _, why := range plan.Why {
			p.fact(ui.Plain, "because", "%s", why)
		}
	}
}

// keys is the table of those that are not safe, those that are behind first.
func (p *page) keys(all []counters.Key) {
	open := slices.DeleteFunc(slices.Clone(all), func(k counters.Key) bool { return k.State == counters.Safe })
	slices.SortStableFunc(open, func(a, b counters.Key) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	if len(open) == 0 {
		return
	}
	p.part()
	p.print(ui.View{Data: open[:min(len(open), p.most())], Columns: []ui.Column{
		{Title: "KEY", Field: "key"},
		{Title: "COUNTER", Field: "counter", Kind: ui.Number},
		{Title: "OBSERVED", Field: "observed", Kind: ui.Number},
		{Title: "IN", Field: "observed_in"},
		{Title: "TARGET", Field: "target", Kind: ui.Number},
		{Title: "STATE", Field: "state", Tones: map[string]ui.Tone{
			string(counters.Forged): ui.Bad, string(counters.Unreadable): ui.Bad, string(counters.NoRoom): ui.Bad, string(counters.Exhausted): ui.Warn, string(counters.Foreign): ui.Warn,
		}},
	}})
	if more := len(open) - p.most(); more > 0 {
		p.fact(ui.Faint, "", "and %d more: -o csv", more)
	}
}

// rankOf puts what keeps a fast-forward from being done first, then what is behind.
func rankOf(k counters.Key) int {
	switch {
	case k.State == counters.Foreign:
		return 2
	case k.State != counters.Raise && k.State != counters.Exhausted:
		return 0
	case k.Behind:
		return 1
	default:
		return 2
	}
}

// finishCounters prints what a fast-forward did, and makes all but SAFE and ADVANCED
// an error with its exit code.
func finishCounters(a *app.App, opts fastForwardOptions, result counters.Result) error {
	if err := printCountersResult(a, opts, result); err != nil {
		return err
	}
	switch result.Outcome { //nolint:exhaustive // the others are failures
	case restore.Safe, restore.Advanced:
		return nil
	case restore.VerifyFailed:
		return failure(a, result.Outcome, result.Why, result.Fixes, "the counters were raised, and are not safe")
	}
	return failure(a, result.Outcome, result.Why, result.Fixes, "nothing was changed")
}

func printCountersResult(a *app.App, opts fastForwardOptions, result counters.Result) error {
	if !a.ForPeople() {
		return printCounters(a, result, result.Plan.Keys)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	switch result.Outcome {
	case restore.Safe:
		p.verdict(ui.Good, "SAFE", "nothing was changed: a fast-forward was completed here, and nothing has been granted since")
	case restore.Advanced:
		p.verdict(ui.Good, "ADVANCED", "%s raised, each above every fence that is known of its key", count(result.Raised, "counter"))
	default:
		p.verdict(ui.Bad, string(result.Outcome), "%s", map[restore.Outcome]string{
			restore.RefusedEvidence: "the evidence is not to be believed; no counter was raised",
			restore.RefusedConfig:   "there is no room, or no record; no counter was raised",
			restore.LockTimeout:     "another transaction is in the way; no counter was raised",
			restore.VerifyFailed:    "the counters were raised, and a fence could still be issued twice",
		}[result.Outcome])
	}
	p.part()
	for _, why := range result.Why {
		p.fact(ui.Plain, "because", "%s", why)
	}
	if result.Outcome == restore.Advanced {
		p.fact(ui.Plain, "recorded", "in the audit, as run %s", result.Run)
		p.fact(ui.Plain, "verified", "through new connections")
	}
	if len(result.Blockers) > 0 {
		p.part()
		p.processes("in the way", result.Blockers)
	}
	p.part()
	switch result.Outcome {
	case restore.Safe:
		p.run("next", a.Command("restore verify"))
	case restore.Advanced:
		p.fixes("next", result.Next)
	default:
		p.fixes("fix", result.Fixes)
		p.run("then", a.Command("restore fast-forward", append(opts.countedWords(), "--reason", "TEXT")...))
	}
	return p.err
}

func printCountersVerification(a *app.App, found counters.Verification) error {
	if !a.ForPeople() {
		view := ui.View{Data: found, Name: "id"}
		if a.Format() == ui.CSV || a.Format() == ui.Name {
			view.Rows, view.Columns = found.Findings, []ui.Column{{Field: "id"}, {Field: "what"}, {Field: "fix"}}
		}
		return a.Print(view)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	if found.Safe {
		p.verdict(ui.Good, "SAFE", "no counter can issue a fence that is known")
	} else {
		p.verdict(ui.Alarm, "NOT SAFE", "%s", count(found.FindingsTotal, "finding"))
	}
	p.part()
	p.fact(ui.Plain, "counters", "%s", count(found.Keys, "key"))
	for _, f := range found.Findings[:min(len(found.Findings), p.most())] {
		p.finding(f.ID, f.What, f.Fix)
	}
	if more := found.FindingsTotal - p.most(); more > 0 {
		p.fact(ui.Faint, "", "and %d more: -o json", more)
	}
	return p.err
}
