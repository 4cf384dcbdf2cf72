package lock

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type listOptions struct {
	filter      lockstore.Filter
	session     string
	showSession bool
}

func newListCmd(a *app.App) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List locks",
		Long: "List the locks, by key. A lapsed one is nobody's lock any more; it stays in the list until\n" +
			"its key is acquired again or its session ends.",
		Example: "  dlockctl lock list\n  dlockctl lock list --prefix account: --expired -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.filter.Owner, "owner", "", "only locks of this owner")
	flags.StringVar(&opts.filter.Prefix, "prefix", "", "only keys that begin so")
	flags.StringVar(&opts.session, "session", "", "only locks under this session")
	flags.BoolVar(&opts.filter.Expired, "expired", false, "only lapsed ones")
	app.WholeVar(flags, &opts.filter.Limit, "limit", 0, "at most so many (0: all)")
	flags.BoolVar(&opts.showSession, "show-session", false, "show session ids in full; they are secrets")
	return cmd
}

func runList(ctx context.Context, a *app.App, opts listOptions) error {
	if err := app.CheckLimit(opts.filter.Limit); err != nil {
		return err
	}
	opts.filter.Session = lockstore.SessionID(opts.session)
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	if err := narrowed(store, opts.filter); err != nil {
		return err
	}
	entries, err := store.List(ctx, opts.filter)
	if err != nil {
		return err
	}
	views := make([]entryView, len(entries))
	for i, e := range entries {
		views[i] = viewEntry(e, opts.showSession)
	}
	warnUnreadable(a, entries...)
	return a.Print(ui.View{Data: views, Columns: entryColumns(store), Name: "key", Empty: "no locks"})
}
