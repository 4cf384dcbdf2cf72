package session

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const defaultReapLimit = 1000

func newReapCmd(a *app.App) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Delete lapsed sessions with their locks",
		Long: "Delete lapsed sessions and the locks that hang on them. Live ones are never\n" +
			"touched, and several reapers at once do not meet.",
		Example: "  dlockctl session reap\n  dlockctl session reap --limit 100 -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runReap(ctx, a, limit) }),
	}
	app.WholeVar(cmd.Flags(), &limit, "limit", defaultReapLimit, "at most so many sessions")
	return cmd
}

func runReap(ctx context.Context, a *app.App, limit int) error {
	if limit < 1 {
		return app.UsageError("give a number from 1", "--limit %d reaps nothing", limit)
	}
	store, err := open(ctx, a, app.Changing)
	if err != nil {
		return err
	}
	reaped, err := store.ReapSessions(ctx, limit)
	if err != nil && reaped == (lockstore.Reaped{}) {
		return err
	}
	// What was reaped before an error is said as well.
	return errors.Join(a.Print(ui.View{
		Data: reaped,
		Columns: []ui.Column{
			{Title: "SESSIONS", Field: "sessions", Kind: ui.Number},
			{Title: "LOCKS", Field: "locks", Kind: ui.Number},
		},
		Name: "sessions",
	}), err)
}
