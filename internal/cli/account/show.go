package account

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newShowCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show an account",
		Long: "Show one account: balance, opening balance, fence, and how many of its payouts are open. Exit 3\n" +
			"when there is none.",
		Example: "  dlockctl account show 00000000-0000-4000-8000-000000000001",
		Args:    app.Args("ID"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, args[0]) }),
	}
}

func runShow(ctx context.Context, a *app.App, id string) error {
	if _, err := paystore.ParseID("account", id); err != nil {
		return err
	}
	pay, err := a.Pay(ctx, paystore.Reading)
	if err != nil {
		return err
	}
	acc, err := pay.Account(ctx, id)
	if err != nil {
		return err
	}
	v := view(acc)
	if err := a.Print(ui.View{Data: v, Columns: columns(), Name: "account_id"}); err != nil {
		return err
	}
	if v.OpenPayouts > 0 {
		a.Aside("its open payouts: dlockctl payout list --account %s --open", v.AccountID)
	}
	if !v.Anchored {
		a.Aside("no opening balance is recorded: reconcile cannot compare it with the ledger")
	}
	return nil
}
