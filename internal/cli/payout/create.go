package payout

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newCreateCmd(a *app.App) *cobra.Command {
	var params posting.CreateParams
	var amount int64
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a payout, once per idempotency key",
		Long: "Create a PENDING payout. A key that stands already answers with its payout, created=false, when\n" +
			"account, amount and currency are the same, and is refused when they are not (exit 6): sending a\n" +
			"request again is safe. It needs the rights of payapp_resource.",
		Example: "  dlockctl payout create --account 00000000-0000-4000-8000-000000000001 --amount-minor 1999 --currency EUR --idempotency-key invoice-4711",
		Args:    app.Args(),
		RunE: a.Run(func(ctx context.Context, _ []string) error {
			params.AmountMinor = paystore.Minor(amount)
			return runCreate(ctx, a, params)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&params.AccountID, "account", "", "the `ID` of the account that pays (required)")
	app.WholeVar(flags, &amount, "amount-minor", 0, "how much, in minor units (required)")
	flags.StringVar(&params.Currency, "currency", "", "the account's currency (required)")
	flags.StringVar(&params.IdempotencyKey, "idempotency-key", "", "the request's own `KEY`, also towards the rail (required)")
	flags.StringVar(&params.PayoutID, "payout-id", "", "the payout's `ID` (default: a new one)")
	return cmd
}

// createdView is what create answers.
type createdView struct {
	payoutView

	// Created is false when the payout stood already.
	Created bool `json:"created"`
}

func runCreate(ctx context.Context, a *app.App, params posting.CreateParams) error {
	pay, err := a.Pay(ctx, paystore.Changing)
	if err != nil {
		return err
	}
	p, created, err := posting.New(pay, posting.Options{}).Create(ctx, params)
	if err != nil {
		return err
	}
	if !created {
		a.Aside("the payout of this key stood already; nothing was created")
	}
	return a.Print(ui.View{
		Data:    createdView{view(p), created},
		Columns: append(columns(), ui.Column{Title: "CREATED NOW", Field: "created"}),
		Name:    "payout_id",
	})
}
