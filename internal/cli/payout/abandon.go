package payout

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type abandonOptions struct {
	evidence, reason, operator string
	yes, dryRun                bool
}

func newAbandonCmd(a *app.App) *cobra.Command {
	var opts abandonOptions
	cmd := &cobra.Command{
		Use:   "abandon ID --reason TEXT",
		Short: "Give a payout up",
		Long: "Give a payout up for good. A PENDING or CLAIMED one becomes FAILED: it has not been near the rail.\n" +
			"A RAIL_AMBIGUOUS one becomes ABANDONED: what became of it at the rail will never be known, which\n" +
			"wants --evidence of having asked. Every other payout is resolved instead. Only PENDING is given up\n" +
			"without the account's lock.",
		Example: "  dlockctl payout abandon 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a --reason 'cancelled by the payer' --dry-run\n" +
			"  dlockctl payout abandon 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a --reason 'bank closed' --evidence 'letter 12' --yes",
		Args: app.Args("ID"),
		RunE: a.Run(func(ctx context.Context, args []string) error { return runAbandon(ctx, a, args[0], opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.evidence, "evidence", "", "for RAIL_AMBIGUOUS, how it is known that it will never be known: text, or a JSON object")
	flags.StringVar(&opts.reason, "reason", "", "why; the record keeps it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be done, change nothing")
	app.ConfirmFlag(flags)
	return cmd
}

func runAbandon(ctx context.Context, a *app.App, id string, opts abandonOptions) (err error) {
	if opts.operator, err = a.Operator(); err != nil {
		return err
	}
	if err := a.RequireReason(opts.reason); err != nil {
		return err
	}
	detail, err := look(ctx, a, id, opts.dryRun)
	if err != nil {
		return err
	}
	p := detail.Payout
	plan, err := planAbandon(p)
	if err != nil {
		return err
	}
	params := posting.ResolveParams{
		PayoutID: p.PayoutID, Source: paystore.SourceOperator, Verdict: paystore.VerdictUndetermined, Operator: opts.operator, Reason: opts.reason,
	}
	if p.State == paystore.RailAmbiguous {
		if params.Evidence, err = evidenceOf(opts.evidence); err != nil {
			return err
		}
	}
	if opts.dryRun {
		return printPlan(a, p, plan)
	}
	if err := confirm(ctx, a, p, plan, opts.yes); err != nil {
		return err
	}
	return abandon(ctx, a, p, params)
}

func abandon(ctx context.Context, a *app.App, p paystore.Payout, params posting.ResolveParams) error {
	if p.State == paystore.Pending {
		db, err := a.Pay(ctx, paystore.Changing)
		if err != nil {
			return err
		}
		if _, err := posting.New(db, posting.Options{}).GiveUp(ctx, p.PayoutID, 0, params.Operator, params.Reason); err != nil {
			return err
		}
		return printDone(ctx, a, db, p.PayoutID, "abandon")
	}
	desk, err := sitDown(ctx, a, params.Operator, p.AccountID, deskTTL)
	if err != nil {
		return err
	}
	defer desk.leave(ctx, a)
	if _, err := desk.posting.Claim(ctx, p.PayoutID, desk.operator, desk.token); err != nil {
		return err
	}
	if p.State == paystore.Claimed {
		_, err = desk.posting.GiveUp(ctx, p.PayoutID, desk.token, params.Operator, params.Reason)
	} else {
		params.Token = desk.token
		_, err = desk.posting.Resolve(ctx, params)
	}
	if err != nil {
		return err
	}
	return printDone(ctx, a, desk.db, p.PayoutID, "abandon")
}

func planAbandon(p paystore.Payout) ([]string, error) {
	lock := fmt.Sprintf("acquire %s, for a token above %s, and take the payout over from %s", paystore.LockKey(p.AccountID), p.ClaimToken, ui.Visible(p.ClaimedBy))
	switch p.State { //nolint:exhaustive // the others follow
	case paystore.Pending:
		return []string{"PENDING to FAILED: nobody has worked on it"}, nil
	case paystore.Claimed:
		return []string{lock, "CLAIMED to FAILED: it has not been near the rail"}, nil
	case paystore.RailAmbiguous:
		return []string{lock, "RAIL_AMBIGUOUS to ABANDONED: whether the rail has paid will never be known"}, nil
	}
	givenUp := []paystore.State{paystore.Pending, paystore.Claimed, paystore.RailAmbiguous}
	err := &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: givenUp}
	if slices.Contains([]paystore.State{paystore.RailSubmitted, paystore.RailAcked}, p.State) {
		return nil, app.WithHint(err, "it may have been paid: dlockctl payout resolve")
	}
	return nil, err
}
