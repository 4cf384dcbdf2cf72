package session

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// endedView is what end did.
type endedView struct {
	ID    string `json:"session_id"`
	Ended bool   `json:"ended"`
	Locks int    `json:"locks_released"`
}

func newEndCmd(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "end [ID]",
		Short: "End a session and release its locks",
		Long: "End a session; the locks that hang on it are released with it. It asks first when there are\n" +
			"any; without a terminal that needs --yes. Without ID it is the one in DLOCKCTL_SESSION, which\n" +
			"does not show in ps. In a protected profile, another's session needs --confirm.",
		Example: "  dlockctl session end \"$SESSION\"\n  dlockctl session end \"$SESSION\" --yes",
		Args:    app.OptionalArg(),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runEnd(ctx, a, args, yes) }),
	}
	app.ConfirmFlag(cmd.Flags())
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func runEnd(ctx context.Context, a *app.App, args []string, yes bool) error {
	id, own, err := a.SessionArg(args)
	if err != nil {
		return err
	}
	if !own {
		if err := a.Protect(); err != nil {
			return err
		}
	}
	store, err := open(ctx, a, app.Changing)
	if err != nil {
		return err
	}
	if !yes {
		if err := ask(ctx, a, store, id); err != nil {
			return err
		}
	}
	locks, err := store.EndSession(ctx, id)
	if err != nil {
		return err
	}
	return a.Print(ui.View{
		Data: endedView{id.Masked(), true, locks},
		Columns: []ui.Column{
			{Title: "SESSION", Field: "session_id"},
			{Title: "ENDED", Field: "ended"},
			{Title: "LOCKS RELEASED", Field: "locks_released", Kind: ui.Number},
		},
		Name: "session_id",
	})
}

// ask shows what hangs on the session before it goes; nothing does, nothing is
// asked.
func ask(ctx context.Context, a *app.App, store lockstore.Store, id lockstore.SessionID) error {
	session, err := store.Session(ctx, id)
	if err != nil || session.Locks == 0 {
		return err
	}
	locks, err := store.List(ctx, lockstore.Filter{Session: id})
	if err != nil {
		return err
	}
	for _, l := range locks {
		a.Note("lock %q with token %s of %q, acquired %s, %s", l.Key, l.Token, l.Owner, ui.Ago(l.Age), ui.Left(l.Remaining))
	}
	return a.Confirm(ctx, fmt.Sprintf("End session %s of %q and release these %d locks?", id.Masked(), session.Owner, len(locks)), "--yes")
}
