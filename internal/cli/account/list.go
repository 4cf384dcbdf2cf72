package account

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newListCmd(a *app.App) *cobra.Command {
	var filter paystore.AccountFilter
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List accounts",
		Long: "List the accounts by id, clearing accounts included. With --limit, --after takes the last id\n" +
			"of the page before.",
		Example: "  dlockctl account list --currency EUR --limit 20\n  dlockctl account list --clearing -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, filter) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Currency, "currency", "", "only accounts of this currency")
	flags.BoolVar(&filter.Clearing, "clearing", false, "only clearing accounts")
	flags.StringVar(&filter.After, "after", "", "go on after this account `ID`")
	app.WholeVar(flags, &filter.Limit, "limit", 0, "at most so many (0: all)")
	return cmd
}

func runList(ctx context.Context, a *app.App, filter paystore.AccountFilter) error {
	if err := app.CheckLimit(filter.Limit); err != nil {
		return err
	}
	pay, err := a.Pay(ctx, paystore.Reading)
	if err != nil {
		return err
	}
	accounts, err := pay.Accounts(ctx, filter)
	if err != nil {
		return err
	}
	views := make([]accountView, len(accounts))
	for i, acc := range accounts {
		views[i] = view(acc)
	}
	return a.Print(ui.View{Data: views, Columns: columns(), Name: "account_id", Empty: "no accounts"})
}
