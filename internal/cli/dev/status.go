package dev

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
)

func newStatusCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show whether the databases run, and where",
		Long:    "Show both instances. Each DSN file holds a connection string, readable by you alone:\n\n  psql \"$(cat DSN-FILE)\"",
		Example: "  dlockctl dev status\n  dlockctl dev status -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runStatus(ctx, a) }),
	}
}

func runStatus(ctx context.Context, a *app.App) error {
	env, err := a.Dev()
	if err != nil {
		return err
	}
	status, err := env.Status(ctx)
	if err != nil {
		return err
	}
	return printStatus(a, status)
}
