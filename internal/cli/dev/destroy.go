package dev

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
)

func newDestroyCmd(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "destroy",
		Short: "Stop the databases and remove their data",
		Long: "Stop both servers and remove what dev made, and nothing else. It asks first; without a terminal\n" +
			"that needs --yes.",
		Example: "  dlockctl dev destroy\n  dlockctl dev destroy --yes",
		Args:    app.Args(),
		RunE:    a.RunWithin(within, func(ctx context.Context, _ []string) error { return runDestroy(ctx, a, yes) }),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func runDestroy(ctx context.Context, a *app.App, yes bool) error {
	env, err := a.Dev()
	if err != nil {
		return err
	}
	if !yes {
		if err := a.Confirm(ctx, fmt.Sprintf("Remove both databases in %s, with all their data?", env.Dir()), "--yes"); err != nil {
			return err
		}
	}
	if err := env.Destroy(ctx); err != nil {
		return err
	}
	status, err := env.Status(ctx)
	if err != nil {
		return err
	}
	return printStatus(a, status)
}
