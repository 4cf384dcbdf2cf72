package restore_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	restorecmd "github.com/dlockctl/dlockctl/internal/cli/restore"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// What a program reads can be run as it stands, as what a person reads: each command of a
// plan, of a result, of a verification and of the error beside them names the databases
// that the running one was told.
//
// Mutation: print plan, result or found as they are; leave allRunnable out of failure; or
// the words out of asItRuns.
func TestCommandsInJSONRunAsTheyStand(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(config, []byte("profiles: {prod: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := " --profile prod --config " + app.Quoted(config)
	told := func() (*app.App, func(into any)) {
		streams, out, _ := ui.Test("", map[string]string{"HOME": t.TempDir()})
		a := app.New(streams, nil)
		a.Knowing(func() *cobra.Command { return cli.NewRoot(app.New(streams, nil)) })
		cmd, _, err := cli.NewRoot(a).Find([]string{"restore", "plan"})
		if err == nil {
			err = cmd.ParseFlags([]string{"-p", "prod", "--config", config, "-o", "json"})
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Use(cmd)
		return a, func(into any) {
			t.Helper()
			if err := json.Unmarshal(out.Bytes(), into); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
		}
	}
	want := func(what, got, command string) {
		t.Helper()
		if got != command+with {
			t.Errorf("%s is %q, want %q", what, got, command+with)
		}
	}

	a, read := told()
	given := setBack()
	if err := restorecmd.ShowPlan(a, given, []string{"--observed", "900"}); err != nil {
		t.Fatal(err)
	}
	var plan restore.Plan
	read(&plan)
	want("the freeze's command", plan.Signs[0].Command, "dlockctl thaw --reason TEXT")
	want("the timeline's command", plan.Signs[1].Command, "dlockctl restore fast-forward --observed 900 --reason TEXT")
	if given.Signs[0].Command != "dlockctl thaw --reason TEXT" {
		t.Error("what was given was changed")
	}

	a, read = told()
	refused := restore.Result{
		Outcome: restore.RefusedEvidence, Step: restore.StepEvidence, Why: []string{"paydb is unavailable"}, Plan: setBack(),
		Fixes: []string{"dlockctl restore paydb --reason TEXT"}, Next: []string{"dlockctl thaw --reason TEXT"},
		Verification: &restore.Verification{Findings: []restore.Finding{{ID: "gate_closed", Fix: "dlockctl restore plan"}}},
	}
	refused.Plan.Fixes = []string{"dlockctl doctor"}
	err := restorecmd.ShowResult(a, restorecmd.FastForwardOptions{}, refused)
	failure, is := err.(*app.Failure) //nolint:errorlint // it is what finish returns
	if !is {
		t.Fatalf("refused: %v", err)
	}
	want("the error's fix", failure.Details.(map[string][]string)["fixes"][0], "dlockctl restore paydb --reason TEXT")
	var result restore.Result
	read(&result)
	want("the plan's command", result.Plan.Signs[1].Command, "dlockctl restore fast-forward --margin 0 --reason TEXT")
	want("the plan's fix", result.Plan.Fixes[0], "dlockctl doctor")
	want("the fix", result.Fixes[0], "dlockctl restore paydb --reason TEXT")
	want("what is next", result.Next[0], "dlockctl thaw --reason TEXT")
	want("the finding's fix", result.Verification.Findings[0].Fix, "dlockctl restore plan")

	a, read = told()
	if err := restorecmd.ShowVerification(a, *refused.Verification); err != nil {
		t.Fatal(err)
	}
	var found restore.Verification
	read(&found)
	want("the finding's fix alone", found.Findings[0].Fix, "dlockctl restore plan")

	// Without flags nothing is added.
	streams, out, _ := ui.Test("", map[string]string{"HOME": t.TempDir(), "DLOCKCTL_OUTPUT": "json"})
	if err := restorecmd.ShowPlan(app.New(streams, nil), given, nil); err != nil || !strings.Contains(out.String(), `"dlockctl thaw --reason TEXT"`) {
		t.Errorf("without flags: %v\n%s", err, out)
	}
}
