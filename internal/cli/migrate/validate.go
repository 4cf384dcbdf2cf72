package migrate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type targetReport struct {
	Target string `json:"target"`
	flyway.Report
}

func newValidateCmd(a *app.App) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Compare the files with the history",
		Long: "Compare as Flyway's validate does: edited, missing, late, failed, future and pending files are\n" +
			"findings. Exit 7 when one of them is an error; pending ones are.",
		Example: "  dlockctl migrate validate\n  dlockctl migrate validate --target lockdb -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runValidate(ctx, a, opts) }),
	}
	opts.targetFlag(cmd.Flags())
	return cmd
}

func runValidate(ctx context.Context, a *app.App, opts options) error {
	found, err := targets(ctx, a, opts)
	if err != nil {
		return err
	}
	all := []targetReport{}
	for _, t := range found {
		err := t.with(ctx, a, flyway.DefaultLockTimeout, func(m *flyway.Migrator) error {
			report, err := m.Validate(ctx)
			all = append(all, targetReport{t.Name, report})
			return err
		})
		if err != nil {
			return err
		}
	}
	type row struct {
		Target string `json:"target"`
		flyway.Finding
	}
	rows, valid := []row{}, true
	for _, r := range all {
		valid = valid && r.Valid
		for _, f := range r.Findings {
			rows = append(rows, row{r.Target, f})
		}
	}
	err = a.Print(ui.View{
		Data: all, Rows: rows,
		Columns: []ui.Column{
			{Title: "TARGET", Field: "target"},
			{Title: "SEVERITY", Field: "severity", Tones: map[string]ui.Tone{string(flyway.SeverityError): ui.Bad, string(flyway.SeverityWarning): ui.Warn}},
			{Title: "KIND", Field: "kind"},
			{Title: "FINDING", Field: "message"},
			{Title: "HINT", Field: "hint", Wide: true},
		},
		Name: "script", Empty: "no findings",
	})
	if err != nil || valid {
		return err
	}
	return &app.Failure{Exit: app.Findings, Code: "findings", Message: plural(len(rows), "finding"), Hint: rows[0].Hint}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
