package session

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type listOptions struct {
	filter      lockstore.SessionFilter
	showSession bool
}

func newListCmd(a *app.App) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List sessions",
		Example: "  dlockctl session list\n  dlockctl session list --owner worker-7 --show-session",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.filter.Owner, "owner", "", "only sessions of this owner")
	flags.BoolVar(&opts.filter.Expired, "expired", false, "only lapsed ones")
	app.WholeVar(flags, &opts.filter.Limit, "limit", 0, "at most so many (0: all)")
	flags.BoolVar(&opts.showSession, "show-session", false, "show ids in full; they are secrets")
	return cmd
}

func runList(ctx context.Context, a *app.App, opts listOptions) error {
	if err := app.CheckLimit(opts.filter.Limit); err != nil {
		return err
	}
	store, err := open(ctx, a, app.Reading)
	if err != nil {
		return err
	}
	sessions, err := store.Sessions(ctx, opts.filter)
	if err != nil {
		return err
	}
	views := make([]sessionView, len(sessions))
	for i, s := range sessions {
		views[i] = view(s, opts.showSession)
	}
	return a.Print(ui.View{Data: views, Columns: columns(), Name: "session_id", Empty: "no sessions"})
}
