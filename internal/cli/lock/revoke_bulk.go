package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// bulkOptions select many grants at once (K-3.4).
type bulkOptions struct {
	filter  lockstore.Filter
	session string
	// expect is how many grants the operator saw; negative when not said.
	expect int
}

func (o *bulkOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.filter.Owner, "owner", "", "in bulk: the locks of this owner")
	flags.StringVar(&o.filter.Prefix, "prefix", "", "in bulk: the locks whose keys begin so")
	flags.StringVar(&o.session, "session", "", "in bulk: the locks under this session")
	app.WholeVar(flags, &o.expect, "expect-count", -1, "in bulk: how many locks that are; another number changes nothing")
}

func (o *bulkOptions) narrowed() bool {
	return o.filter.Owner != "" || o.filter.Prefix != "" || o.session != ""
}

// shownLocks bounds the preview on a terminal; --dry-run prints all.
const shownLocks = 20

func runRevokeMany(ctx context.Context, a *app.App, opts revokeOptions) error {
	if err := bulkSaidAloud(a, opts); err != nil {
		return err
	}
	filter := opts.bulk.filter
	filter.Session = lockstore.SessionID(opts.bulk.session)
	store, err := openToRevoke(ctx, a, opts)
	if err != nil {
		return err
	}
	if err := narrowed(store, filter); err != nil {
		return err
	}
	entries, err := store.List(ctx, filter)
	if err != nil {
		return err
	}
	if opts.dryRun {
		return printPlans(a, store, opts, entries)
	}
	expect := opts.bulk.expect
	if expect < 0 {
		expect = len(entries)
	}
	switch {
	case len(entries) != expect:
		return unchanged(&lockstore.CountMovedError{Expected: expect, Found: len(entries)})
	case len(entries) == 0:
		return &app.Failure{Exit: app.NotFound, Code: "not_held", Message: "no lock matches; nothing was changed"}
	case !opts.yes:
		if err := askMany(ctx, a, opts, entries); err != nil {
			return err
		}
	}
	outcomes, err := store.RevokeMany(ctx, lockstore.RevokeManyParams{Filter: filter, Operator: opts.operator, Reason: opts.reason, Expect: expect})
	if err != nil {
		return unchanged(err)
	}
	return printMany(a, store, opts, outcomes)
}

// unchanged says that another number than the expected one changed nothing.
func unchanged(err error) error {
	if _, moved := errors.AsType[*lockstore.CountMovedError](err); moved {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return err
}

// bulkSaidAloud is saidAloud for many: where no question shows them, the caller
// says how many are meant.
func bulkSaidAloud(a *app.App, opts revokeOptions) error {
	unseen := opts.yes || !a.Streams.Interactive()
	switch {
	case opts.named() || opts.anyToken:
		return app.UsageError("in bulk, --expect-count N says which grants are meant", "--token, --lock-id-hash and --any-token are for one KEY")
	case opts.endSession || len(opts.fenceAccounts) > 0:
		return app.UsageError("revoke the locks one by one for that", "--end-session and --fence-account are for one KEY")
	case opts.dryRun:
		return nil
	case unseen && !opts.yes:
		return &app.Failure{
			Exit: app.Refused, Code: "not_confirmed", Message: "revoke needs a confirmation, and there is no terminal to ask on",
			Hint: "look with --dry-run, then say yes by flags: --yes --expect-count N",
		}
	case unseen && opts.bulk.expect < 0:
		return app.UsageError("look with --dry-run, then give the number of locks you saw", "--yes needs --expect-count N")
	}
	return nil
}

func askMany(ctx context.Context, a *app.App, opts revokeOptions, entries []lockstore.Entry) error {
	for _, e := range entries[:min(len(entries), shownLocks)] {
		describe(a, e)
	}
	if more := len(entries) - shownLocks; more > 0 {
		a.Note("… and %d more; --dry-run shows them all", more)
	}
	a.Note("operator %q, reason %q", opts.operator, opts.reason)
	return a.Confirm(ctx, fmt.Sprintf("Revoke these %d locks?", len(entries)), "--yes --expect-count N")
}

func printPlans(a *app.App, store lockstore.Store, opts revokeOptions, entries []lockstore.Entry) error {
	plans := make([]planView, len(entries))
	for i, e := range entries {
		plans[i] = planOf(opts, e)
	}
	if err := a.Print(ui.View{Data: plans, Columns: planColumns(store)[:7], Name: "key", Empty: "no lock matches"}); err != nil {
		return err
	}
	if len(entries) > 0 {
		a.Aside("to revoke them: --yes --expect-count %d", len(entries))
	}
	return nil
}

func printMany(a *app.App, store lockstore.Store, opts revokeOptions, outcomes []lockstore.LockOutcome) error {
	views := make([]outcomeView, len(outcomes))
	for i, o := range outcomes {
		views[i] = viewOutcome(opts, o)
	}
	columns := append(outcomeColumns()[:4:4], ui.Column{Title: "AUDIT", Field: "audit_id", Kind: ui.Number})
	columns[2] = app.OwnerColumn(store, "owner")
	if err := a.Print(ui.View{Data: views, Columns: columns, Name: "key"}); err != nil {
		return err
	}
	again := ""
	if store.Capabilities().Sessions {
		again = "; while its session lives it may acquire again"
	}
	a.Aside("note: each holder's writes are refused once a higher token reaches its resource%s", again)
	return nil
}
