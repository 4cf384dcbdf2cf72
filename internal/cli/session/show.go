package session

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func newShowCmd(a *app.App) *cobra.Command {
	var showSession bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a session",
		Long:    "Show one session: owner, what remains of it, how many locks hang on it. Exit 3 when there is none.",
		Example: "  dlockctl session show \"$SESSION\"",
		Args:    app.Args("ID"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, args[0], showSession) }),
	}
	cmd.Flags().BoolVar(&showSession, "show-session", false, "show the id in full; it is a secret")
	return cmd
}

func runShow(ctx context.Context, a *app.App, text string, showSession bool) error {
	id := lockstore.SessionID(text)
	if err := lockstore.ValidSessionID(id); err != nil {
		return err
	}
	store, err := open(ctx, a, app.Reading)
	if err != nil {
		return err
	}
	session, err := store.Session(ctx, id)
	if err != nil {
		return err
	}
	return printOne(a, view(session, showSession))
}
