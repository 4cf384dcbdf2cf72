package restore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	restorecmd "github.com/dlockctl/dlockctl/internal/cli/restore"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

var now = time.Date(2026, 11, 29, 3, 12, 0, 0, time.UTC)

// terminal is an app on a terminal of so many columns.
func terminal(width int, env map[string]string) (*app.App, *bytes.Buffer) {
	streams, out, _ := ui.Test("", env)
	streams.OutTTY, streams.Width = true, width
	streams.Now = func() time.Time { return now }
	return app.New(streams, nil), out
}

// setBack is a plan for a restored lockdb, with names that play with a terminal.
func setBack() restore.Plan {
	return restore.Plan{
		Outcome: restore.Advanced, Identity: lockstore.Identity{SystemIdentifier: 7713671152543163640, Timeline: 2},
		Gate: lockstore.Gate{Present: true, OpenedOn: lockstore.Identity{SystemIdentifier: 7713671152543163640, Timeline: 1}},
		Signs: []restore.Sign{
			{ID: "frozen", What: "grants are frozen by \x1b[2Jerin: one\ntwo", Command: "dlockctl thaw --reason TEXT"},
			{ID: "timeline", What: "the gate was opened on timeline 1, and this is 2: lockdb was restored to a moment, or a standby was promoted", Command: "dlockctl restore fast-forward --reason TEXT"},
		},
		Last: 12, Observed: 900, ObservedIn: "account.fence", Margin: 1 << 32, Target: 900 + 1<<32, Headroom: 1 << 52,
		Evidence: []lockstore.Evidence{
			{Source: "account.fence", Status: lockstore.EvidenceRead, Value: 900, Row: "account 00000000-0000-4000-8000-000000000001", At: lockstore.Time{Time: now.Add(-2 * time.Minute)}},
			{Source: "rail_submission.presented_token", Status: lockstore.EvidenceEmpty},
			{Source: "lock_entry.fencing_token", Status: lockstore.EvidenceRead, Value: 12, Row: "lock '\x1b[31m" + strings.Repeat("k", 200) + "'"},
		},
		Traffic:  lockstore.Traffic{Connected: make([]owner.Process, 9), Sessions: 1, Locks: 2},
		Accounts: []floor.Unfinished{{AccountID: "00000000-0000-4000-8000-000000000001", Payouts: 2, HighestClaim: 880, States: "CLAIMED 1, RAIL_SUBMITTED 1"}}, AccountsTotal: 1,
	}
}

// The verdict comes first and the command to run last, in lines that fit the
// screen; nothing in a name or a reason reaches the terminal.
//
// Mutation: take Visible out of fact or verdict, cut out of evidence, or the order
// out of advice.
func TestPlanIsReadAtNight(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 120} {
		a, out := terminal(width, map[string]string{"NO_COLOR": "1"})
		if err := restorecmd.ShowPlan(a, setBack(), []string{"--observed", "900"}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if !strings.HasPrefix(lines[0], " SET BACK   lockdb could issue tokens") {
			t.Errorf("first line %q", lines[0])
		}
		want := []string{"  next          dlockctl restore fast-forward --observed 900 --reason TEXT", "  then          dlockctl thaw --reason TEXT"}
		if got := lines[len(lines)-2:]; got[0] != want[0] || got[1] != want[1] {
			t.Errorf("last lines %q, want %q", got, want)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Errorf("%d columns on a terminal of %d: %q", n, width, line)
			}
		}
		if text := out.String(); strings.Contains(text, "\x1b") || !strings.Contains(text, "2m ago") || !strings.Contains(text, "and 4 more: -o json") {
			t.Errorf("at %d columns:\n%s", width, text)
		}
	}
	a, out := terminal(80, nil)
	if err := restorecmd.ShowPlan(a, setBack(), nil); err != nil || !strings.Contains(out.String(), "\x1b[") || strings.Contains(out.String(), "\x1b[2J") {
		t.Errorf("in colour: %v\n%q", err, out)
	}
}

// A paydb that is down is said once, and its fix once.
//
// Mutation: print the reasons as they are.
func TestPaydbDownIsSaidOnce(t *testing.T) {
	t.Parallel()
	plan := restore.Plan{Outcome: restore.RefusedEvidence, Why: []string{"and one more"}, Fixes: []string{"mend that"}}
	for _, source := range floor.Sources() {
		plan.Evidence = append(plan.Evidence, lockstore.Evidence{Source: source, Status: lockstore.EvidenceUnavailable, Reason: "connection refused"})
		plan.Missing = append(plan.Missing, source)
		plan.Why = append(plan.Why, source+" could not be read: connection refused")
		plan.Fixes = append(plan.Fixes, "make it readable, or go on without it: --accept-missing "+source)
	}
	a, out := terminal(80, map[string]string{"NO_COLOR": "1"})
	err := restorecmd.ShowPlan(a, plan, nil)
	var failure *app.Failure
	if !errors.As(err, &failure) || failure.Exit != app.Refused || failure.Code != "refused_evidence" {
		t.Errorf("error %v", err)
	}
	for _, once := range []string{"could not be read", "--accept-missing paydb", "and one more", "mend that"} {
		if n := strings.Count(out.String(), once); n != 1 {
			t.Errorf("%q stands there %d times:\n%s", once, n, out)
		}
	}
}

// Each outcome has its exit code, and says whether anything was changed.
//
// Mutation: swap two cases in failure, or take Step out of finish.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome restore.Outcome
		step    restore.Step
		exit    app.Exit
		says    string
	}{
		{restore.Safe, "", app.OK, ""},
		{restore.Advanced, "", app.OK, ""},
		{restore.RefusedTraffic, restore.StepAdvance, app.Refused, "ended at step advance, and lockdb grants nothing"},
		{restore.RefusedEvidence, restore.StepEvidence, app.Refused, "nothing was changed"},
		{restore.RefusedConfig, restore.StepEvidence, app.Refused, "nothing was changed"},
		{restore.LockTimeout, restore.StepBarrier, app.Held, "ended at step barrier"},
		{restore.VerifyFailed, restore.StepVerify, app.Unknown, "ended at step verify"},
	} {
		a, out := terminal(80, map[string]string{"NO_COLOR": "1"})
		err := restorecmd.ShowResult(a, restorecmd.FastForwardOptions{}, restore.Result{Outcome: c.outcome, Step: c.step, Why: []string{"because of that"}, Fixes: []string{"do this"}})
		var failure *app.Failure
		switch errors.As(err, &failure); {
		case c.exit == app.OK && err != nil:
			t.Errorf("%s: %v", c.outcome, err)
		case c.exit != app.OK && (failure == nil || failure.Exit != c.exit || !strings.Contains(failure.Message, c.says) || failure.Code != strings.ToLower(string(c.outcome))):
			t.Errorf("%s: %+v, want exit %d", c.outcome, failure, c.exit)
		}
		if !strings.Contains(out.String(), string(c.outcome)) {
			t.Errorf("%s: not named in\n%s", c.outcome, out)
		}
	}
}
