package migrate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type repairOptions struct {
	options
	dryRun, yes bool
}

type targetRepair struct {
	Target string `json:"target"`
	flyway.RepairPlan
}

func newRepairCmd(a *app.App) *cobra.Command {
	var opts repairOptions
	cmd := &cobra.Command{
		Use:   "repair --target lockdb|paydb|syncguard",
		Short: "Bring the history in line with the files",
		Long: "Remove failed rows, mark missing migrations deleted, accept edited files, as Flyway's repair\n" +
			"does. It changes the history alone: what a failed migration left behind is named, and yours to\n" +
			"remove. It shows what it will do and asks; without a terminal that needs --yes.",
		Example: "  dlockctl migrate repair --target lockdb --dry-run\n  dlockctl migrate repair --target lockdb --yes",
		Args:    app.Args(),
		RunE:    a.RunWithin(within, func(ctx context.Context, _ []string) error { return runRepair(ctx, a, opts) }),
	}
	opts.targetFlag(cmd.Flags())
	opts.lockFlag(cmd.Flags())
	app.ConfirmFlag(cmd.Flags())
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "show what would be done, change nothing")
	cmd.Flags().BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	return cmd
}

func runRepair(ctx context.Context, a *app.App, opts repairOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	t, err := oneTarget(ctx, a, opts.options)
	if err != nil {
		return err
	}
	if !opts.dryRun {
		if err := guard(ctx, a, []Target{t}, nil); err != nil {
			return err
		}
	}
	return t.with(ctx, a, opts.lockTimeout, func(m *flyway.Migrator) error {
		plan, err := m.Repair(ctx, true)
		if err != nil {
			return err
		}
		if !opts.dryRun && !plan.Empty() {
			if err := confirmRepair(ctx, a, t.Name, plan, opts.yes); err != nil {
				return err
			}
			if plan, err = m.Repair(ctx, false); err != nil {
				return err
			}
		}
		return printRepair(a, t.Name, plan)
	})
}

func confirmRepair(ctx context.Context, a *app.App, target string, plan flyway.RepairPlan, yes bool) error {
	if yes {
		return nil
	}
	for _, row := range repairRows(target, plan) {
		a.Note("%s: %s %s", row.Target, row.Action, row.Script)
	}
	return a.Confirm(ctx, fmt.Sprintf("Repair the history of %s?", target), "--yes (look with --dry-run first)")
}

type repairRow struct {
	Target  string `json:"target"`
	Action  string `json:"action"`
	Version string `json:"version"`
	Script  string `json:"script"`
}

func repairRows(target string, plan flyway.RepairPlan) []repairRow {
	rows := []repairRow{}
	for _, r := range plan.Remove {
		rows = append(rows, repairRow{target, "remove the failed row of", r.Version, r.Script})
	}
	for _, r := range plan.Delete {
		rows = append(rows, repairRow{target, "mark as deleted", r.Version, r.Script})
	}
	for _, r := range plan.Align {
		rows = append(rows, repairRow{target, "accept the edited file of", r.Row.Version, r.Row.Script})
	}
	return rows
}

func printRepair(a *app.App, target string, plan flyway.RepairPlan) error {
	for _, left := range plan.Leftover {
		a.Warn("%s: left behind, yours to remove: %s", target, left)
	}
	return a.Print(ui.View{
		Data: targetRepair{target, plan}, Rows: repairRows(target, plan),
		Columns: []ui.Column{
			{Title: "TARGET", Field: "target"},
			{Title: "ACTION", Field: "action"},
			{Title: "VERSION", Field: "version", Kind: ui.Number},
			{Title: "SCRIPT", Field: "script"},
		},
		Name: "script", Empty: "nothing to repair",
	})
}
