package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	defaultOlderThan  = 24 * time.Hour
	defaultPruneLimit = 1000
)

type pruneOptions struct {
	olderThan   time.Duration
	aged        bool // --older-than was given
	limit       int
	dryRun, yes bool
}

// prunedView is an entry that went, or would go.
type prunedView struct {
	Action string `json:"action"`
	DryRun bool   `json:"dry_run,omitempty"`
	Key    string `json:"key"`
	app.Token
	Owner      string         `json:"owner"`
	Session    string         `json:"session_id"`
	AcquiredAt lockstore.Time `json:"acquired_at"`
	ExpiresAt  lockstore.Time `json:"expires_at"`
	// As lock list has them.
	LockIDHash string `json:"lock_id_hash,omitempty"`
	Fence      string `json:"fence,omitempty"`
}

const (
	actionPrune = "prune"
	pruneFlags  = "--yes (look with --dry-run first)"
)

func newPruneCmd(a *app.App) *cobra.Command {
	var opts pruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete entries that lapsed long ago",
		Long: "Delete entries whose lease ended more than --older-than ago, which are nobody's locks, and\n" +
			"nothing else; the journal keeps them as expired. It shows them and asks; without a terminal\n" +
			"that needs --yes.",
		Example: "  dlockctl lock prune --dry-run\n  dlockctl lock prune --older-than 72h --limit 500 --yes",
		Args:    app.Args(),
	}
	cmd.RunE = a.Run(func(ctx context.Context, _ []string) error {
		opts.aged = cmd.Flags().Changed("older-than")
		return runPrune(ctx, a, opts)
	})
	flags := cmd.Flags()
	flags.DurationVar(&opts.olderThan, "older-than", defaultOlderThan, "how long ago the lease ended at least")
	app.WholeVar(flags, &opts.limit, "limit", defaultPruneLimit, "at most so many")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be deleted, change nothing")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	app.ConfirmFlag(flags)
	return cmd
}

func runPrune(ctx context.Context, a *app.App, opts pruneOptions) error {
	switch {
	case opts.olderThan < 0:
		return app.UsageError("give an age such as 24h", "--older-than %s is negative", opts.olderThan)
	case opts.limit < 1:
		return app.UsageError("give a number from 1", "--limit %d prunes nothing", opts.limit)
	}
	if opts.dryRun {
		store, err := a.LockStore(ctx, app.Reading)
		if err != nil {
			return err
		}
		if opts, err = opts.on(store); err != nil {
			return err
		}
		found, err := prunable(ctx, store, opts)
		if err != nil {
			return err
		}
		return printPruned(a, store, opts, found)
	}
	if err := a.Protect(); err != nil {
		return err
	}
	if err := a.CanAsk(opts.yes, pruneFlags); err != nil {
		return err
	}
	store, err := a.LockStore(ctx, app.Changing)
	if err != nil {
		return err
	}
	if opts, err = opts.on(store); err != nil {
		return err
	}
	if !opts.yes {
		found, err := prunable(ctx, store, opts)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := askToPrune(ctx, a, found); err != nil {
				return err
			}
		}
	}
	pruned, err := store.Prune(ctx, opts.olderThan, opts.limit)
	if err != nil {
		return err
	}
	return printPruned(a, store, opts, pruned)
}

// on are the options on a backend: one that does not know when a lease ended prunes
// what has lapsed by now, and no age can be asked for.
func (o pruneOptions) on(store lockstore.Store) (pruneOptions, error) {
	if !store.Capabilities().EndsUntimed {
		return o, nil
	}
	if o.aged && o.olderThan > 0 {
		return o, app.Lacks(store, "time at which a lease ended", "leave --older-than out: what has lapsed by now is pruned")
	}
	o.olderThan = 0
	return o, nil
}

// prunable lists what a prune would take, by the database's own count of how
// long each has lapsed (K-2.1).
func prunable(ctx context.Context, store lockstore.Store, opts pruneOptions) ([]lockstore.Entry, error) {
	lapsed, err := store.List(ctx, lockstore.Filter{Expired: true})
	if err != nil {
		return nil, err
	}
	found := []lockstore.Entry{}
	age := max(opts.olderThan, store.Capabilities().PruneAfter)
	for _, e := range lapsed {
		if -e.Remaining >= age && len(found) < opts.limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func askToPrune(ctx context.Context, a *app.App, found []lockstore.Entry) error {
	for _, e := range found[:min(len(found), shownLocks)] {
		a.Note("lock %q with %s of %s, %s", e.Key, grantOf(e), app.Holder(e.Owner), ui.Left(e.Remaining))
	}
	if more := len(found) - shownLocks; more > 0 {
		a.Note("… and %d more; --dry-run shows them all", more)
	}
	return a.Confirm(ctx, fmt.Sprintf("Delete these %d lapsed entries?", len(found)), pruneFlags)
}

func printPruned(a *app.App, store lockstore.Store, opts pruneOptions, entries []lockstore.Entry) error {
	views := make([]prunedView, len(entries))
	for i, e := range entries {
		views[i] = prunedView{
			Action: actionPrune, DryRun: opts.dryRun, Key: e.Key, Token: app.NewToken(e.Token), Owner: e.Owner,
			Session: app.SessionText(e.Session, false), AcquiredAt: e.AcquiredAt, ExpiresAt: e.ExpiresAt,
			LockIDHash: e.LockIDHash, Fence: e.Fence,
		}
	}
	title := "DID"
	if opts.dryRun {
		title = "WOULD"
	}
	columns := []ui.Column{
		{Title: title, Field: "action"},
		{Title: "KEY", Field: "key"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number},
		app.OwnerColumn(store, "owner"),
		{Title: "ACQUIRED", Field: "acquired_at", Kind: ui.Since},
		{Title: "LAPSED", Field: "expires_at", Kind: ui.Since},
		{Title: "SESSION", Field: "session_id", Wide: true},
	}
	if store.Capabilities().LockIDs {
		columns = append(columns, lockIDColumns()...)
	}
	return a.Print(ui.View{Data: views, Columns: columns, Name: "key", Empty: "nothing to prune"})
}
