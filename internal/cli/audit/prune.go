package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// pruneWithin is the deadline unless --timeout says otherwise: each partition
	// is read once.
	pruneWithin = 10 * time.Minute
	pruneFlags  = "--yes (look with --dry-run first)"
)

type pruneOptions struct {
	olderThan   time.Duration
	reason      string
	dryRun, yes bool
}

// prunedView is what prune did, or would do.
type prunedView struct {
	DryRun bool `json:"dry_run,omitempty"`
	lockstore.JournalPrune
}

func newPruneCmd(a *app.App) *cobra.Command {
	var opts pruneOptions
	cmd := &cobra.Command{
		Use:   "prune --older-than D --reason TEXT",
		Short: "Drop old partitions of the grant journal",
		Long: "Drop the oldest partitions of the journal that says who was granted which token: those whose\n" +
			"last grant ended more than --older-than ago, and lowest first, so that no gap arises. Never one\n" +
			"at or above the lowest claim of a payout that is not final, for which paydb is asked. Audit\n" +
			"and operator log are never pruned; each drop is written into the latter.\n\n" +
			"It needs the right to become dlock_owner. Behind a reader of the journal it gives up after two\n" +
			"seconds (exit 4), since every acquire waits behind a drop.",
		Example: "  dlockctl audit prune --older-than 8760h --dry-run\n" +
			"  dlockctl audit prune --older-than 8760h --reason 'yearly, ticket 9' --yes",
		Args: app.Args(),
		RunE: a.RunWithin(pruneWithin, func(ctx context.Context, _ []string) error { return runPrune(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.DurationVar(&opts.olderThan, "older-than", 0, "how long ago the last grant ended at least, 48h or more (required)")
	flags.StringVar(&opts.reason, "reason", "", "why; the operator log keeps it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be dropped, change nothing")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	app.ConfirmFlag(flags)
	return cmd
}

func runPrune(ctx context.Context, a *app.App, opts pruneOptions) error {
	if opts.olderThan < lockstore.MinJournalAge {
		return app.UsageError(fmt.Sprintf("give an age of at least %s, such as 8760h", lockstore.MinJournalAge), "--older-than %s is too young", opts.olderThan)
	}
	params := lockstore.JournalPruneParams{OlderThan: opts.olderThan, Reason: opts.reason, DryRun: true}
	var err error
	if params.Operator, err = a.Operator(); err != nil {
		return err
	}
	purpose := app.Reading
	if !opts.dryRun {
		purpose = app.Changing
		if err := guardPrune(a, opts); err != nil {
			return err
		}
	}
	store, err := a.LockStore(ctx, purpose)
	if err != nil {
		return err
	}
	pruner, able := store.(lockstore.JournalPruner)
	if !able {
		return app.Lacks(store, "journal that is pruned", "dlockctl audit prune is for lockdb")
	}
	if params.Below, err = lowestClaim(ctx, a); err != nil {
		return err
	}
	if opts.dryRun || !opts.yes {
		plan, err := pruner.PruneJournal(ctx, params)
		if err != nil {
			return err
		}
		if opts.dryRun {
			return printPruned(a, plan, true)
		}
		if err := askToPrune(ctx, a, plan); err != nil {
			return err
		}
	}
	params.DryRun = false
	pruned, err := pruner.PruneJournal(ctx, params)
	if len(pruned.Dropped) > 0 || err == nil {
		// What was dropped before an error is said as well.
		if printErr := printPruned(a, pruned, false); printErr != nil {
			return printErr
		}
	}
	return err
}

func guardPrune(a *app.App, opts pruneOptions) error {
	if err := a.RequireReason(opts.reason); err != nil {
		return err
	}
	if err := a.Protect(); err != nil {
		return err
	}
	return a.CanAsk(opts.yes, pruneFlags)
}

// lowestClaim asks paydb which tokens must still be attributable, 0 for none.
// Without an answer nothing is pruned (K-11).
func lowestClaim(ctx context.Context, a *app.App) (lockstore.Token, error) {
	config, err := a.PayConfig()
	if err != nil {
		return 0, err
	}
	cfg, err := a.Config()
	if err != nil {
		return 0, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, &lockstore.UnreachableError{Doing: "connect to paydb, for the claims of open payouts", Err: err}
	}
	defer func() {
		ctx, cancel := app.CleanUp(ctx)
		defer cancel()
		_ = conn.Close(ctx) // nothing is under way on it
	}()
	facts, err := instance.Read(ctx, conn)
	if err != nil {
		return 0, fmt.Errorf("paydb: %w", err)
	}
	if facts.InRecovery {
		// A standby may not know yet of the claim that matters.
		return 0, fmt.Errorf("read the claims in paydb: %w", lockstore.ErrNotPrimary)
	}
	if err := instance.CheckEnvironment(ctx, conn, "paydb", cfg.Environment); err != nil {
		return 0, err
	}
	token, _, err := paystore.LowestOpenClaim(ctx, conn)
	return lockstore.Token(token), err
}

func askToPrune(ctx context.Context, a *app.App, plan lockstore.JournalPrune) error {
	if len(plan.Dropped) == 0 {
		return nil
	}
	for _, p := range plan.Dropped {
		a.Note("partition %s, tokens %s up to %s, %d grants, the last of them over since %s", p.Name, p.From, p.To, p.Grants, p.LastActivity)
	}
	return a.Confirm(ctx, fmt.Sprintf("Drop these %d partitions for good?", len(plan.Dropped)), pruneFlags)
}

func printPruned(a *app.App, pruned lockstore.JournalPrune, dryRun bool) error {
	if pruned.Kept != nil {
		a.Aside("%s stays: %s", pruned.Kept.Name, pruned.Why)
	}
	return a.Print(ui.View{
		Data: prunedView{dryRun, pruned}, Rows: pruned.Dropped,
		Columns: []ui.Column{
			{Title: "PARTITION", Field: "partition"},
			{Title: "FROM", Field: "from_token", Kind: ui.Number},
			{Title: "BELOW", Field: "to_token", Kind: ui.Number},
			{Title: "GRANTS", Field: "grants", Kind: ui.Number},
			{Title: "LAST", Field: "last_activity", Kind: ui.Since},
		},
		Name: "partition", Empty: "no partition is old enough",
	})
}
