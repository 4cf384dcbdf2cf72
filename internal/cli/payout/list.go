package payout

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type listOptions struct {
	filter paystore.PayoutFilter
	states []string
	open   bool
}

func newListCmd(a *app.App) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List payouts",
		Long: "List payouts, newest first. --open leaves out those that are final (POSTED, FAILED, ABANDONED);\n" +
			"--older-than takes what has not moved for so long, by the database's clock.",
		Example: "  dlockctl payout list --open --older-than 15m --oldest\n" +
			"  dlockctl payout list --state RAIL_AMBIGUOUS -o json\n" +
			"  dlockctl payout list --account 00000000-0000-4000-8000-000000000001 --limit 20",
		Args: app.Args(),
		RunE: a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.filter.AccountID, "account", "", "only payouts of this account `ID`")
	flags.StringArrayVar(&opts.states, "state", nil, "only payouts in this `STATE` (repeatable)")
	flags.BoolVar(&opts.open, "open", false, "only payouts that are not final")
	flags.StringVar(&opts.filter.ClaimedBy, "claimed-by", "", "only payouts that this holder has claimed")
	flags.StringVar(&opts.filter.IdempotencyKey, "idempotency-key", "", "only the payout of this `KEY`")
	flags.DurationVar(&opts.filter.OlderThan, "older-than", 0, "only payouts that have not moved for so long")
	flags.BoolVar(&opts.filter.OldestFirst, "oldest", false, "oldest first")
	app.WholeVar(flags, &opts.filter.Limit, "limit", 0, "at most so many (0: all)")
	return cmd
}

func runList(ctx context.Context, a *app.App, opts listOptions) error {
	if err := opts.settle(); err != nil {
		return err
	}
	pay, err := a.Pay(ctx, paystore.Reading)
	if err != nil {
		return err
	}
	payouts, err := pay.Payouts(ctx, opts.filter)
	if err != nil {
		return err
	}
	views := make([]payoutView, len(payouts))
	for i, p := range payouts {
		views[i] = view(p)
	}
	return a.Print(ui.View{Data: views, Columns: columns(), Name: "payout_id", Empty: "no payouts"})
}

func (o *listOptions) settle() error {
	if err := app.CheckLimit(o.filter.Limit); err != nil {
		return err
	}
	if o.filter.OlderThan < 0 {
		return app.UsageError("give an age, such as 15m", "--older-than %s is negative", o.filter.OlderThan)
	}
	if o.open && len(o.states) > 0 {
		return app.UsageError("give one of them", "--open and --state both choose states")
	}
	for _, text := range o.states {
		state, err := paystore.ParseState(text)
		if err != nil {
			return err
		}
		o.filter.States = append(o.filter.States, state)
	}
	if o.open {
		o.filter.States = paystore.OpenStates()
	}
	// Rounded up: a time below the database's microseconds would list everything.
	if o.filter.OlderThan > 0 {
		o.filter.OlderThan = max(o.filter.OlderThan, time.Microsecond)
	}
	return nil
}
