package migrate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newBaselineCmd(a *app.App) *cobra.Command {
	var opts options
	var description string
	cmd := &cobra.Command{
		Use:   "baseline VERSION --target lockdb|paydb|syncguard",
		Short: "Declare that a database already is at a version",
		Long: "Write Flyway's baseline marker into a database that has no history yet: files up to VERSION\n" +
			"never run there. Repeating it with the same version changes nothing. With --target syncguard the\n" +
			"tables must be as the library makes them; what differs is said, and nothing is written.",
		Example: "  dlockctl migrate baseline 2 --target lockdb",
		Args:    app.Args("VERSION"),
		RunE: a.RunWithin(within, func(ctx context.Context, args []string) error {
			return runBaseline(ctx, a, opts, args[0], description)
		}),
	}
	opts.targetFlag(cmd.Flags())
	opts.lockFlag(cmd.Flags())
	app.ConfirmFlag(cmd.Flags())
	cmd.Flags().StringVar(&description, "description", "", "the marker's text (default Flyway's)")
	return cmd
}

func runBaseline(ctx context.Context, a *app.App, opts options, version, description string) error {
	if err := opts.check(); err != nil {
		return err
	}
	t, err := oneTarget(ctx, a, opts)
	if err != nil {
		return err
	}
	if err := guard(ctx, a, []Target{t}, nil); err != nil {
		return err
	}
	if err := t.adoptable(ctx, version); err != nil {
		return err
	}
	if t.Name == targetSyncGuard && description == "" {
		description = adoptedDescription // what up would write
	}
	err = t.with(ctx, a, opts.lockTimeout, func(m *flyway.Migrator) error { return m.Baseline(ctx, version, description) })
	if err != nil {
		return err
	}
	type result struct {
		Target  string `json:"target"`
		Version string `json:"baseline_version"`
	}
	return a.Print(ui.View{
		Data:    result{t.Name, version},
		Columns: []ui.Column{{Title: "TARGET", Field: "target"}, {Title: "BASELINE", Field: "baseline_version"}},
		Name:    "target",
	})
}
