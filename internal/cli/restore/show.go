package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// showPlan prints a plan; next are the flags of the fast-forward that carries it
// out.
func showPlan(a *app.App, plan restore.Plan, next []string) error {
	if err := printPlan(a, plan, next); err != nil {
		return err
	}
	if plan.Outcome == restore.Safe || plan.Outcome == restore.Advanced {
		return nil
	}
	return failure(a, plan.Outcome, plan.Why, plan.Fixes, "a fast-forward would be refused")
}

func printPlan(a *app.App, plan restore.Plan, next []string) error {
	if !a.ForPeople() {
		return printData(a, complete(a, plan, next), plan.Evidence)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	p.state(plan)
	p.outlook(plan)
	p.evidence(plan.Evidence, plan.ObservedIn)
	p.traffic(plan)
	p.next(plan, next)
	return p.err
}

// printData prints for programs. CSV is a table of the evidence, and a name is the
// verdict.
func printData(a *app.App, data any, evidence []lockstore.Evidence) error {
	view := ui.View{Data: data, Name: "outcome"}
	if a.Format() == ui.CSV {
		view.Rows, view.Columns = evidenceRows(evidence), evidenceColumns()
	}
	return a.Print(view)
}

// state is the verdict on lockdb as it is, with the signs that fired.
func (p *page) state(plan restore.Plan) {
	has := func(ids ...string) bool {
		return slices.ContainsFunc(plan.Signs, func(s restore.Sign) bool { return slices.Contains(ids, s.ID) })
	}
	setBack := has("gate_missing", "identity", "timeline", "paydb_ahead", "lockdb_ahead", "mark_ahead", "old_primary_ahead")
	switch {
	case setBack && plan.Gate.Open():
		p.verdict(ui.Alarm, "SET BACK", "lockdb may issue tokens that are still in use, AND ITS GATE IS OPEN: it may be granting them now")
	case setBack:
		p.verdict(ui.Alarm, "SET BACK", "lockdb could issue tokens that are still in use, so it grants nothing")
	case has("unfinished"):
		p.verdict(ui.Bad, "UNFINISHED", "a fast-forward was cut off or is under way; lockdb grants nothing until it is run again")
	case has("paydb_restored"):
		p.verdict(ui.Bad, "PAYDB SET BACK", "paydb may have forgotten what it paid; lockdb shows no sign of it")
	case has("frozen"):
		p.verdict(ui.Warn, "FROZEN", "somebody has closed the gate; nothing shows that lockdb was set back")
	case plan.Outcome == restore.Safe:
		p.verdict(ui.Good, "SAFE", "a fast-forward was completed here, and nothing has been granted since")
	case len(plan.Missing) > 0:
		p.verdict(ui.Warn, "UNKNOWN", "no sign that lockdb was set back, and not all that would show it could be read")
	default:
		p.verdict(ui.Good, "NO SIGN", "nothing shows that lockdb was set back")
	}
	p.part()
	for _, s := range plan.Signs {
		p.fact(ui.Plain, "sign", "%s", s.What)
	}
	if plan.Outcome == restore.Safe {
		for _, why := range plan.Why {
			p.fact(ui.Plain, "why", "%s", why)
		}
	}
}

// outlook is what a fast-forward would do.
func (p *page) outlook(plan restore.Plan) {
	p.fact(ui.Plain, "lockdb", "instance %d, timeline %d; token last issued: %s", plan.Identity.SystemIdentifier, plan.Identity.Timeline, plan.Last)
	if plan.Observed > 0 {
		p.fact(ui.Plain, "observed", "%s %s", plan.Observed, found(plan.Evidence, plan.ObservedIn, p.ago))
	} else {
		p.fact(ui.Plain, "observed", "no token anywhere")
	}
	switch plan.Outcome {
	case restore.Safe:
		p.fact(ui.Plain, "fast-forward", "would be SAFE: it changes nothing")
		return
	case restore.Advanced:
		if plan.Target <= plan.Last { // below it: etcd was bumped further
			p.fact(ui.Plain, "fast-forward", "would be ADVANCED: %s is reached already, and the rest is completed", plan.Target)
			break
		}
		p.fact(ui.Plain, "fast-forward", "would be ADVANCED: from %s to %s; %s tokens are left after that", plan.Last, plan.Target, plan.Headroom)
	default:
		why, _ := gather(plan.Why, plan.Fixes, plan.Evidence)
		p.fact(ui.Bad, "fast-forward", "would be %s", plan.Outcome)
		for _, text := range why {
			p.fact(ui.Plain, "because", "%s", text)
		}
		return
	}
	p.fact(ui.Plain, "ends", "%s and %s; every token up to %s is refused at accounts and rail", count(plan.Traffic.Sessions, "session"), count(plan.Traffic.Locks, "lock"), plan.Target)
}

// most of what is listed is shown with -o table, ten times as much with -o wide.
const most = 5

func (p *page) most() int {
	if p.app.Format() == ui.Wide {
		return 10 * most
	}
	return most
}

// traffic is who is there, and who will notice.
func (p *page) traffic(plan restore.Plan) {
	p.part()
	p.processes("connected", plan.Traffic.Connected)
	p.processes("drawing", plan.Traffic.Holding)
	for i, account := range plan.Accounts {
		if i == p.most() {
			p.fact(ui.Faint, "", "and %d more: -o json", plan.AccountsTotal-i)
			break
		}
		label := "unfinished"
		if i > 0 {
			label = ""
		}
		p.fact(ui.Plain, label, "account %s: %s, %s, claimed up to token %d", account.AccountID, count(account.Payouts, "payout"), account.States, account.HighestClaim)
	}
	if plan.Pay != nil && !plan.Pay.Open() {
		p.fact(ui.Warn, "paydb", "its own gate is closed; %s unresolved", count(int(plan.Pay.Unresolved), "payout"))
	}
}

func (p *page) processes(label string, processes []owner.Process) {
	for i, process := range processes {
		if i == p.most() {
			p.fact(ui.Faint, "", "and %d more: -o json", len(processes)-i)
			return
		}
		state := process.State
		if !process.Since.IsZero() {
			state += ", its transaction began " + p.ago(process.Since)
		}
		p.fact(ui.Plain, label, "%s", strings.TrimSuffix(fmt.Sprintf("%s: %s", process, state), ": "))
		label = ""
	}
}

// next is the last thing on the screen: what to run.
func (p *page) next(plan restore.Plan, words []string) {
	if len(plan.Rights) > 0 && plan.Outcome != restore.Safe {
		p.part()
		p.fact(ui.Warn, "rights", "this login may look, and not carry it out; missing:")
		for _, sql := range plan.Rights {
			p.run("", sql)
		}
	}
	p.part()
	switch plan.Outcome {
	case restore.Safe:
		p.run("next", p.app.Command("restore verify"))
	case restore.Advanced:
		p.advice(plan, words)
	default:
		_, fixes := gather(plan.Why, plan.Fixes, plan.Evidence)
		p.fixes("fix", fixes)
	}
}

// advice is the command that fits the signs; without any there is none to run.
func (p *page) advice(plan restore.Plan, words []string) {
	commands := []string{}
	for _, s := range plan.Signs {
		if !slices.Contains(commands, s.Command) {
			commands = append(commands, s.Command)
		}
	}
	// A freeze that stands beside another sign is thawed after it.
	slices.SortStableFunc(commands, func(a, b string) int { return rank(a) - rank(b) })
	for i, command := range commands {
		label := "next"
		if i > 0 {
			label = "then"
		}
		p.run(label, asItRuns(p.app, command, words))
	}
	if len(commands) == 0 {
		p.fact(ui.Plain, "next", "nothing; after a restore from a plain copy of the files, which leaves no sign, all the same:")
		p.run("", p.app.Command("restore fast-forward", append(slices.Clone(words), "--reason", "TEXT")...))
	}
}

const fastForward = "dlockctl restore fast-forward"

// asItRuns is a sign's command with the flags that it needs here; words are those of the
// fast-forward that carries out what was looked at.
func asItRuns(a *app.App, command string, words []string) string {
	if strings.HasPrefix(command, fastForward) {
		return a.Command("restore fast-forward", append(slices.Clone(words), "--reason", "TEXT")...)
	}
	return a.Runnable(command)
}

// complete is a plan for programs: its commands can be run as they stand. The plan file
// has them bare, for it may be carried to another place.
func complete(a *app.App, plan restore.Plan, words []string) restore.Plan {
	plan.Signs = slices.Clone(plan.Signs)
	for i := range plan.Signs {
		plan.Signs[i].Command = asItRuns(a, plan.Signs[i].Command, words)
	}
	plan.Fixes = allRunnable(a, plan.Fixes)
	return plan
}

func allRunnable(a *app.App, texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = a.Runnable(texts[i])
	}
	return texts
}

// proven is a verification for programs, as complete makes a plan one.
func proven(a *app.App, found restore.Verification) restore.Verification {
	found.Findings = slices.Clone(found.Findings)
	for i := range found.Findings {
		found.Findings[i].Fix = a.Runnable(found.Findings[i].Fix)
	}
	return found
}

func rank(command string) int {
	switch {
	case strings.HasPrefix(command, fastForward):
		return 0
	case strings.HasPrefix(command, "dlockctl payout"):
		return 1
	default:
		return 2
	}
}

// fixes are what to do, each command and statement on a line of its own.
func (p *page) fixes(label string, fixes []string) {
	for _, fix := range fixes {
		about, line := "", fix
		if i := strings.LastIndex(fix, ": "); i >= 0 && runnable(fix[i+2:]) {
			about, line = fix[:i+1], fix[i+2:]
		}
		if about != "" {
			p.fact(ui.Plain, label, "%s", about)
			label = ""
		}
		switch {
		case !runnable(line):
			p.fact(ui.Strong, label, "%s", p.app.Runnable(line))
		case strings.HasPrefix(line, "dlockctl "):
			p.run(label, p.app.Runnable(line))
		default:
			p.run(label, line)
		}
		label = ""
	}
}

// runnable tells a command or a statement, with nothing behind it, from prose.
func runnable(text string) bool {
	if strings.HasPrefix(text, "ALTER ") || strings.HasPrefix(text, "ROLLBACK PREPARED ") {
		return !strings.Contains(text, ";")
	}
	return text == planCommand || strings.HasPrefix(text, "dlockctl ") && (strings.HasSuffix(text, "TEXT") || strings.HasSuffix(text, "--from-rail"))
}

const planCommand = "dlockctl restore plan"

// failure is the error that an outcome ends in. The page has said why and what to
// do; programs find it here too.
func failure(a *app.App, outcome restore.Outcome, why, fixes []string, message string) error {
	exit, fixes := app.Refused, allRunnable(a, fixes)
	switch outcome { //nolint:exhaustive // the others are refusals
	case restore.LockTimeout:
		exit = app.Held
	case restore.VerifyFailed:
		exit = app.Unknown
	}
	f := &app.Failure{
		Exit: exit, Code: strings.ToLower(string(outcome)), Message: message + ": " + strings.Join(why, "; "),
		Hint: strings.Join(fixes, "; "), Details: map[string][]string{"why": why, "fixes": fixes},
	}
	if a.ForPeople() {
		f.Message, f.Hint = message, ""
	}
	return f
}
