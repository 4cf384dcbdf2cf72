package payout

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newReleaseCmd(a *app.App) *cobra.Command {
	var token app.TokenFlag
	cmd := &cobra.Command{
		Use:   "release ID --token N",
		Short: "Give a claimed payout back",
		Long: "Give a CLAIMED payout back: it is PENDING again, and free for a later holder. --token is the claim\n" +
			"that is meant; another's claim is not touched. One that may have reached the rail cannot be given\n" +
			"back: dlockctl payout resolve.",
		Example: "  dlockctl payout release 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a --token 106",
		Args:    app.Args("ID"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runRelease(ctx, a, args[0], token) }),
	}
	app.ConfirmFlag(cmd.Flags())
	cmd.Flags().Var(&token, "token", "the claim to give back (required)")
	return cmd
}

// releasedView is what release did.
type releasedView struct {
	payoutView

	// Released is false when the claim was not, or not any more, this token's.
	Released bool `json:"released"`
}

func runRelease(ctx context.Context, a *app.App, id string, token app.TokenFlag) error {
	if token.Token == 0 {
		return app.UsageError("dlockctl payout show "+id+" names the claim", "--token is missing")
	}
	if err := a.Protect(); err != nil {
		return err
	}
	pay, err := a.Pay(ctx, paystore.Changing)
	if err != nil {
		return err
	}
	released, err := posting.New(pay, posting.Options{}).Release(ctx, id, paystore.Token(token.Token))
	if err != nil {
		return err
	}
	p, err := pay.Payout(ctx, id)
	if err != nil {
		return err
	}
	if !released {
		a.Note("note: nothing was released: the payout is %s, and token %s does not hold it", p.State, token.Token)
	}
	return a.Print(ui.View{
		Data:    releasedView{view(p.Payout), released},
		Columns: append(columns(), ui.Column{Title: "RELEASED", Field: "released"}),
		Name:    "payout_id",
	})
}
