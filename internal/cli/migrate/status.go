package migrate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type targetStatus struct {
	Target string `json:"target"`
	flyway.Status
}

func newStatusCmd(a *app.App) *cobra.Command {
	var opts options
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is applied and what is pending",
		Long: "Show every migration with Flyway's name for its state. Reading needs no more than SELECT on\n" +
			"the history. With --exit-code, exit 7 when anything is pending or wrong.",
		Example: "  dlockctl migrate status\n  dlockctl migrate status --target paydb --exit-code -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runStatus(ctx, a, opts, exitCode) }),
	}
	opts.targetFlag(cmd.Flags())
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 7 when anything is pending or wrong")
	return cmd
}

func runStatus(ctx context.Context, a *app.App, opts options, exitCode bool) error {
	found, err := targets(ctx, a, opts)
	if err != nil {
		return err
	}
	all := []targetStatus{}
	for _, t := range found {
		err := t.with(ctx, a, flyway.DefaultLockTimeout, func(m *flyway.Migrator) error {
			status, err := m.Status(ctx)
			all = append(all, targetStatus{t.Name, status})
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := printStatus(a, all); err != nil {
		return err
	}
	count := 0
	for _, s := range all {
		count += len(s.Findings)
	}
	if exitCode && count > 0 {
		return &app.Failure{Exit: app.Findings, Code: "findings", Message: plural(count, "finding"), Hint: "dlockctl migrate validate says what each means"}
	}
	return nil
}

func printStatus(a *app.App, all []targetStatus) error {
	type row struct {
		Target string `json:"target"`
		flyway.Info
	}
	rows := []row{}
	for _, s := range all {
		for _, info := range s.Migrations {
			rows = append(rows, row{s.Target, info})
		}
	}
	return a.Print(ui.View{
		Data: all, Rows: rows,
		Columns: []ui.Column{
			{Title: "TARGET", Field: "target"},
			{Title: "VERSION", Field: "version", Kind: ui.Number},
			{Title: "DESCRIPTION", Field: "description"},
			{Title: "STATE", Field: "state", Tones: stateTones()},
			{Title: "INSTALLED", Field: "installed_on", Kind: ui.Since, Wide: true},
			{Title: "BY", Field: "installed_by", Wide: true},
			{Title: "CHECKSUM", Field: "checksum", Kind: ui.Number, Wide: true},
		},
		Name: "script",
	})
}

func stateTones() map[string]ui.Tone {
	return map[string]ui.Tone{
		string(flyway.StateSuccess): ui.Good, string(flyway.StatePending): ui.Warn, string(flyway.StateOutdated): ui.Warn,
		string(flyway.StateFailed): ui.Bad, string(flyway.StateFailedFuture): ui.Bad, string(flyway.StateFailedMissing): ui.Bad,
		string(flyway.StateMissing): ui.Bad, string(flyway.StateIgnored): ui.Bad,
	}
}
