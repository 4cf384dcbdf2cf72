package dev

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
)

func newDownCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop the databases; their data stays",
		Example: "  dlockctl dev down",
		Args:    app.Args(),
		RunE:    a.RunWithin(within, func(ctx context.Context, _ []string) error { return runDown(ctx, a) }),
	}
}

func runDown(ctx context.Context, a *app.App) error {
	env, err := a.Dev()
	if err != nil {
		return err
	}
	if err := env.Down(ctx); err != nil {
		return err
	}
	status, err := env.Status(ctx)
	if err != nil {
		return err
	}
	return printStatus(a, status)
}
