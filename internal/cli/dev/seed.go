package dev

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/migrate"
)

func newSeedCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "seed",
		Short: "Apply the synthetic accounts",
		Long: "Apply the seeds of paydb, and whatever schema version is pending. A balance that has been\n" +
			"posted to is left as it is.",
		Example: "  dlockctl dev seed",
		Args:    app.Args(),
		RunE:    a.RunWithin(upWithin, func(ctx context.Context, _ []string) error { return runSeed(ctx, a) }),
	}
}

func runSeed(ctx context.Context, a *app.App) error {
	env, err := a.Dev()
	if err != nil {
		return err
	}
	done, err := Apply(ctx, a, env, true)
	if err != nil {
		return err
	}
	return migrate.Print(a, done)
}
