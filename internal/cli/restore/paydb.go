package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type paydbOptions struct {
	reason                         string
	copied, yes, dryRun, terminate bool
}

func newPaydbCmd(a *app.App) *cobra.Command {
	var opts paydbOptions
	cmd := &cobra.Command{
		Use:   "paydb --reason TEXT",
		Short: "Let a restored paydb be worked on again, once no payout can be paid twice",
		Long: "A restored paydb shows payouts as unpaid that were paid, so its gate lets nobody claim them. First\n" +
			"lockdb has to be safe. Then this refuses every token up to lockdb's last one, at accounts and rail,\n" +
			"and opens the gate when no payout is left that is neither final nor settled by the rail's record:\n" +
			"dlockctl payout resolve --all --from-rail. Run it before and after that, as often as you like.\n\n" +
			"A plain copy of paydb's files shows in no identifier: say --copied, and its gate is closed first.\n" +
			"The login must be able to SET ROLE dlock_owner in paydb, as dlock_operator can.\n\n" +
			"Exit 0 open, also when it was; 6 payouts are left, or lockdb comes first; 4 a transaction is in\n" +
			"the way (--terminate ends it).",
		Example: "  dlockctl restore paydb --dry-run\n" +
			"  dlockctl restore paydb --reason 'point-in-time restore, ticket 812'",
		Args: app.Args(),
		RunE: a.RunWithin(moveWithin, func(ctx context.Context, _ []string) error { return runPaydb(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.reason, "reason", "", "why; floors and gate keep it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVar(&opts.copied, "copied", false, "paydb came back as a plain copy of its files: close its gate first")
	flags.BoolVar(&opts.terminate, "terminate", false, "end the transactions that are in the way")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show the gate, change nothing")
	app.ConfirmFlag(flags)
	return cmd
}

func runPaydb(ctx context.Context, a *app.App, opts paydbOptions) error {
	what := restore.Options{Reason: opts.reason}
	if !opts.dryRun {
		if err := a.RequireReason(opts.reason); err != nil {
			return err
		}
		if err := a.Protect(); err != nil {
			return err
		}
		var err error
		if what.Operator, err = a.Operator(); err != nil {
			return err
		}
	}
	stores, closeAll, err := open(ctx, a, access{changing: !opts.dryRun, terminate: opts.terminate})
	if err != nil {
		return err
	}
	defer closeAll()
	if stores.Pay == nil {
		return errors.Join(restore.ErrNoPaydb, stores.PayProblem)
	}
	gate, err := stores.Pay.Gate(ctx)
	if err != nil {
		return err
	}
	if opts.dryRun || gate.Open() && !opts.copied {
		return printGate(a, restore.PayRepair{Restored: !gate.Here, Gate: gate, Floors: []floor.Raised{}, Next: []string{}})
	}
	if err := opts.ask(ctx, a, stores, gate); err != nil {
		return err
	}
	// Closed already, it stays as it was closed: what was resolved since counts.
	if keeper, ok := stores.Pay.(*floor.Keeper); ok && opts.copied && gate.Open() {
		if _, err := keeper.CloseGate(ctx, floor.Change{Operator: what.Operator, Reason: opts.reason}); err != nil {
			return err
		}
	}
	repair, err := restore.RepairPaydb(ctx, stores, what)
	if err != nil {
		return err
	}
	if err := printGate(a, repair); err != nil {
		return err
	}
	if !repair.Gate.Open() {
		return app.WithHint(&floor.UnresolvedError{Payouts: repair.Gate.Unresolved},
			"for all of them: "+a.Command("payout resolve", "--all", "--from-rail", "--reason", "TEXT"))
	}
	return nil
}

func (o paydbOptions) ask(ctx context.Context, a *app.App, stores restore.Stores, gate floor.Gate) error {
	if o.yes {
		return nil
	}
	if err := a.CanAsk(o.yes, "--yes"); err != nil {
		return err
	}
	source, err := stores.Lock.Source(ctx)
	if err != nil {
		return err
	}
	a.Note("paydb:   %s", gateSays(gate))
	a.Note("refuses: every token up to %s, at accounts and rail, for ever; who holds a lock acquires it anew", source.Last)
	if gate.Open() {
		a.Note("closes:  its gate, until the rail has settled every payout that is not final")
	} else {
		a.Note("opens:   its gate, unless payouts are left that the rail has to settle; now there are %d", gate.Unresolved)
	}
	return a.Confirm(ctx, "Go on?", "--yes")
}

func gateSays(gate floor.Gate) string {
	switch {
	case gate.Open():
		return "its gate is open"
	case !gate.Present:
		return "its gate is missing"
	case gate.ClosedBy != "":
		return fmt.Sprintf("its gate was closed by %s: %s", ui.Visible(gate.ClosedBy), ui.Visible(gate.Reason))
	default:
		return fmt.Sprintf("it was restored, promoted or copied; it is instance %d, timeline %d", gate.SystemIdentifier, gate.Timeline)
	}
}

func printGate(a *app.App, repair restore.PayRepair) error {
	if !a.ForPeople() {
		return a.Print(ui.View{Data: repair, Columns: []ui.Column{{Field: "restored"}, {Field: "opened"}, {Field: "to_token"}}, Name: "to_token"})
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	if repair.Gate.Open() {
		p.verdict(ui.Good, "OPEN", "payouts are claimed and paid")
	} else {
		p.verdict(ui.Bad, "CLOSED", "%s", gateSays(repair.Gate))
	}
	p.part()
	if !repair.Gate.Open() {
		p.fact(ui.Plain, "unresolved", "%s", count(int(repair.Gate.Unresolved), "payout"))
	}
	for _, f := range repair.Floors {
		if f.Moved {
			p.fact(ui.Plain, "floor", "%s: every token up to %s is refused", f.Point, f.To)
		}
	}
	p.fixes("next", repair.Next)
	return p.err
}
