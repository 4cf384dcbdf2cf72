package restore

import (
	"context"
	"os"
	"path/filepath"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// onCounters tells that the locks are in SyncGuard's tables, where each key has a
// counter of its own.
func onCounters(a *app.App) (bool, error) {
	cfg, err := a.Config()
	if err != nil {
		return false, err
	}
	return cfg.Backend == config.SyncGuard, nil
}

// openCounters opens SyncGuard's database; the caller closes it.
func openCounters(ctx context.Context, a *app.App) (*counters.Store, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	address, err := a.LockConfig()
	if err != nil {
		return nil, err
	}
	names, err := syncguard.NamesOf(syncguard.Options{LockTable: cfg.SyncGuard.LockTable, FenceTable: cfg.SyncGuard.FenceTable})
	if err != nil {
		return nil, err
	}
	return counters.Open(ctx, counters.StoreOptions{Config: address, Names: names})
}

// counted are what the flags say to SyncGuard's counters; those that are about
// lockdb's one sequence are refused.
func (f *evidenceFlags) counted() (counters.Options, error) {
	for _, name := range []string{"accept-missing", "no-token-above", "old-primary-dsn-file", "mark-dir", "out", "plan", "terminate"} {
		if f.changed(name) {
			return counters.Options{}, app.UsageError("leave it out; docs/syncguard.md says what there is", "--%s is for a backend with one sequence of tokens, not for syncguard", name)
		}
	}
	opts := counters.Options{Again: f.again, Observed: counters.Observations{}}
	if f.observed.Token != 0 {
		return opts, app.UsageError("each key counts for itself: --observed KEY=N", "--observed %s names no key", f.observed.String())
	}
	if f.changed("margin") {
		if opts.Margin = f.margin; opts.Margin < 1 {
			return opts, app.UsageError("leave it out for 1000000000", "--margin %d is below 1", f.margin)
		}
	}
	for key, told := range f.observed.of {
		opts.Observed[key] = told
	}
	for _, path := range f.from {
		file, err := os.Open(path)
		if err != nil {
			return opts, app.UsageError("dlockctl restore plan -o csv writes one", "open --from: %v", err)
		}
		err = opts.Observed.ReadFile(file, filepath.Base(path))
		_ = file.Close() // it was only read
		if err != nil {
			return opts, err
		}
	}
	return opts, nil
}

// countedWords are the flags again, for a command that is printed to be run.
func (f *evidenceFlags) countedWords() []string {
	var words []string
	for _, text := range f.observed.given {
		words = append(words, "--observed", text)
	}
	for _, path := range f.from {
		words = append(words, "--from", path)
	}
	if f.changed("margin") {
		words = append(words, "--margin", lockstore.Token(f.margin).String())
	}
	if f.again {
		words = append(words, "--again")
	}
	return words
}

func runCountersPlan(ctx context.Context, a *app.App, opts planOptions) error {
	what, err := opts.counted()
	if err != nil {
		return err
	}
	store, err := openCounters(ctx, a)
	if err != nil {
		return err
	}
	defer closeCounters(ctx, store)
	plan, err := counters.Prepare(ctx, store, what)
	if err != nil {
		return err
	}
	return showCountersPlan(a, plan, opts.countedWords())
}

func closeCounters(ctx context.Context, store *counters.Store) {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	store.Close(ctx)
}

func runCountersFastForward(ctx context.Context, a *app.App, opts fastForwardOptions) error {
	what, err := opts.counted()
	if err != nil {
		return err
	}
	if !opts.dryRun {
		if err := opts.allowed(a); err != nil {
			return err
		}
		if what.Operator, err = a.Operator(); err != nil {
			return err
		}
		a.Badge()
	}
	what.Reason = opts.reason
	what.Progress = func(step restore.Step) { a.Aside("… %-9s %s", step, doingToCounters(step)) }
	store, err := openCounters(ctx, a)
	if err != nil {
		return err
	}
	defer closeCounters(ctx, store)
	plan, err := counters.Prepare(ctx, store, what)
	if err != nil {
		return err
	}
	if opts.dryRun {
		return showCountersPlan(a, plan, opts.countedWords())
	}
	if plan.Outcome == restore.Advanced {
		if err := opts.askToRaise(ctx, a, plan); err != nil {
			return err
		}
	}
	result, err := counters.FastForward(ctx, store, what)
	if err != nil {
		return err
	}
	return finishCounters(a, opts, result)
}

func doingToCounters(step restore.Step) string {
	return map[restore.Step]string{
		counters.StepEvidence: "reading counters, locks and audit",
		counters.StepRaise:    "raising the counters; acquires wait",
		counters.StepVerify:   "reading again through new connections",
	}[step]
}

// askToRaise shows what will be done.
func (o *fastForwardOptions) askToRaise(ctx context.Context, a *app.App, plan counters.Plan) error {
	if o.yes {
		return nil
	}
	for _, why := range plan.Why {
		a.Note("sign:   %s", why)
	}
	if len(plan.Why) == 0 {
		a.Note("sign:   none; nothing shows that this database was set back")
	}
	a.Note("raises: %s, each %d above the highest fence that is known of its key", count(plan.Raise, "counter"), plan.Margin)
	a.Note("waits:  every acquire, the library's too, until it is done; locks that are held stay as they are")
	return a.Confirm(ctx, "Raise them?", "--yes (look with --dry-run first)")
}

func runCountersVerify(ctx context.Context, a *app.App, opts evidenceFlags) error {
	what, err := opts.counted()
	if err != nil {
		return err
	}
	store, err := openCounters(ctx, a)
	if err != nil {
		return err
	}
	defer closeCounters(ctx, store)
	found, err := counters.Verify(ctx, store, what)
	if err != nil {
		return err
	}
	if err := printCountersVerification(a, found); err != nil {
		return err
	}
	if found.Safe {
		return nil
	}
	return &app.Failure{
		Exit: app.Findings, Code: "findings", Message: count(found.FindingsTotal, "finding") + ": the counters are not known to be safe",
		Hint: "run " + a.Command("restore plan"),
	}
}
