package lock

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newShowCmd(a *app.App) *cobra.Command {
	var showSession bool
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show who holds a lock, and until when",
		Long: "Show one lock: holder, token, age, what remains of the lease, and the server processes whose\n" +
			"open transactions block the key. Exit 3 when nobody holds it.",
		Example: "  dlockctl lock show account:42\n  dlockctl lock show account:42 -o json",
		Args:    app.Args("KEY"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, args[0], showSession) }),
	}
	cmd.Flags().BoolVar(&showSession, "show-session", false, "show the session id in full; it is a secret")
	return cmd
}

func runShow(ctx context.Context, a *app.App, key string, showSession bool) error {
	if err := lockstore.LookupKey(key); err != nil {
		return err
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	entry, err := store.Show(ctx, key)
	if errors.Is(err, lockstore.ErrNotFound) {
		return notFound(ctx, a, store, key, err)
	}
	if err != nil {
		return err
	}
	warnUnreadable(a, entry)
	return a.Print(ui.View{Data: viewEntry(entry, showSession), Columns: entryColumns(store), Name: "key"})
}

// notFound says so when the same name in other bytes is held: two programs that
// do not spell a key alike do not exclude each other.
func notFound(ctx context.Context, a *app.App, store lockstore.Store, key string, err error) error {
	twin, lookErr := heldTwin(ctx, store, key)
	switch {
	case lookErr != nil:
		return lookErr
	case twin == "":
		return app.WithHint(err, "see what there is: "+a.Command("lock list"))
	}
	return &app.Failure{Exit: app.NotFound, Code: "not_found", Message: err.Error(), Hint: twin + ": have both programs spell it in one Unicode form (NFC)"}
}
