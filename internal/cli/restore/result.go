package restore

import (
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// finish prints what a fast-forward did, and makes all but SAFE and ADVANCED an
// error with its exit code.
func finish(a *app.App, opts fastForwardOptions, result restore.Result) error {
	if err := printResult(a, opts, result); err != nil {
		return err
	}
	switch result.Outcome { //nolint:exhaustive // the others are failures
	case restore.Safe, restore.Advanced:
		return nil
	}
	message := "nothing was changed"
	if begun(result) {
		message = "it ended at step " + string(result.Step) + ", and lockdb grants nothing until it is run again"
	}
	return failure(a, result.Outcome, result.Why, result.Fixes, message)
}

// begun tells that a fast-forward that did not come to its end has shut the gate.
func begun(result restore.Result) bool {
	return result.Step != restore.StepEvidence && (result.Step != restore.StepCloseGate || !result.GateOpen)
}

func printResult(a *app.App, opts fastForwardOptions, result restore.Result) error {
	if !a.ForPeople() {
		return printData(a, done(a, opts, result), result.Plan.Evidence)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	p.outcome(result)
	if result.Outcome == restore.Advanced {
		p.moved(result)
	}
	if slices.Contains([]restore.Outcome{restore.RefusedEvidence, restore.RefusedConfig, restore.RefusedTraffic, restore.VerifyFailed}, result.Outcome) {
		p.evidence(result.Plan.Evidence, result.Plan.ObservedIn)
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
		_, fixes := gather(result.Why, result.Fixes, result.Plan.Evidence)
		p.fixes("fix", fixes)
		if begun(result) {
			p.run("then", a.Command("restore fast-forward", append(opts.words(), "--reason", "TEXT")...))
		}
	}
	return p.err
}

// done is a result for programs, as complete makes a plan one.
func done(a *app.App, opts fastForwardOptions, result restore.Result) restore.Result {
	result.Plan = complete(a, result.Plan, opts.words())
	result.Fixes, result.Next = allRunnable(a, result.Fixes), allRunnable(a, result.Next)
	if result.Verification != nil {
		found := proven(a, *result.Verification)
		result.Verification = &found
	}
	return result
}

func (p *page) outcome(result restore.Result) {
	switch result.Outcome {
	case restore.Safe:
		p.verdict(ui.Good, "SAFE", "nothing was changed: a fast-forward was completed here, and nothing has been granted since")
	case restore.Advanced:
		if result.GateOpen {
			p.verdict(ui.Good, "ADVANCED", "lockdb grants again, above token %s", result.To)
		} else {
			p.verdict(ui.Warn, "ADVANCED", "lockdb is safe above token %s, and still frozen", result.To)
		}
	default:
		tone, grants := ui.Bad, ""
		if begun(result) {
			tone, grants = ui.Alarm, "; grants are closed"
		}
		p.verdict(tone, string(result.Outcome), "%s", map[restore.Outcome]string{
			restore.RefusedTraffic:  "tokens are still being drawn somewhere",
			restore.RefusedEvidence: "the evidence is not complete, or not to be believed",
			restore.RefusedConfig:   "the token source would repeat tokens, or has no room",
			restore.LockTimeout:     "another transaction is in the way" + grants,
			restore.VerifyFailed:    "lockdb is not safe" + grants,
		}[result.Outcome])
	}
	p.part()
	why, _ := gather(result.Why, result.Fixes, result.Plan.Evidence)
	for _, text := range why {
		p.fact(ui.Plain, "because", "%s", text)
	}
}

// moved is what was done.
func (p *page) moved(result restore.Result) {
	p.fact(ui.Plain, "moved", "the token source from %s to %s; operator log record %d", result.From, result.To, result.RecordID)
	if !result.Moved {
		p.fact(ui.Plain, "", "it stood there already: this completed a run that was cut off")
	}
	p.fact(ui.Plain, "ended", "%s and %s, an audit row each", count(result.SessionsVoided, "session"), count(result.LocksVoided, "lock"))
	for _, floor := range result.Floors {
		p.fact(ui.Plain, "refused", "every token up to %d at the %s", floor.To, floor.Point)
	}
	if result.Mark != "" {
		p.fact(ui.Plain, "mark", "raised: %s", result.Mark)
	}
	if len(result.Plan.Accepted) > 0 {
		p.fact(ui.Warn, "without", "%s", strings.Join(result.Plan.Accepted, ", "))
	}
	if result.Verification != nil && result.Verification.Safe {
		p.fact(ui.Plain, "verified", "through new connections, before the gate was opened")
	}
}
