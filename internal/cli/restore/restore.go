// Package restore holds the verbs for the night after a restore or a fail-over:
// what was set back, moving on from there, and the proof that it is safe again.
package restore

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// New returns the restore command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make lockdb safe again after a restore or a fail-over",
		Long: "A restored or promoted lockdb would issue tokens again that are still in use, so it grants nothing.\n" +
			"plan says what was set back and how that is known, fast-forward moves lockdb past every token that\n" +
			"may have been issued, verify proves that it is safe. docs/restore.md tells the whole story. With the\n" +
			"backend syncguard they do the same to its counters, one for each key: docs/syncguard.md.",
		Example: "  dlockctl restore plan\n" +
			"  dlockctl restore fast-forward --reason 'point-in-time restore, ticket 812'\n" +
			"  dlockctl restore verify",
	}
	cmd.AddCommand(newPlanCmd(a), newFastForwardCmd(a), newVerifyCmd(a), newPaydbCmd(a))
	return app.Group(cmd)
}

// evidenceFlags say what the operator knows beside the databases.
type evidenceFlags struct {
	acceptMissing []string
	observed      observedFlag
	noTokenAbove  app.TokenFlag
	margin        int64
	oldPrimary    string
	again         bool
	// from is for SyncGuard's counters; changed tells what was given.
	from    []string
	changed func(name string) bool
}

// add adds the flags; without margin for a verb that moves nothing.
func (f *evidenceFlags) add(cmd *cobra.Command, margin bool) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.acceptMissing, "accept-missing", nil, "go on though this `SOURCE` cannot be read, or paydb or lockdb for all of one (repeatable)")
	flags.Var(&f.observed, "observed", "a token that you know was issued, from a log or a client; on SyncGuard's tables KEY=N (repeatable)")
	flags.Var(&f.noTokenAbove, "no-token-above", "your word that no higher token was ever issued: what stands higher was forged")
	flags.StringVar(&f.oldPrimary, "old-primary-dsn-file", "", "`FILE` that holds the connection string of the primary of before, if it still answers")
	flags.String("mark-dir", "", "`FOLDER` of the outside mark") // read through the configuration
	f.margin = int64(restore.DefaultMargin)
	if margin {
		app.WholeVar(flags, &f.margin, "margin", f.margin, "land `N` above the highest token observed; on SyncGuard's tables 1000000000 unless given")
		flags.BoolVar(&f.again, "again", false, "raise everything again, though nothing shows it: a plain copy of the files was put back")
	}
	flags.StringArrayVar(&f.from, "from", nil, "on SyncGuard's tables, also count the fences in this `FILE`: an export of the counters or the locks, CSV or JSON (repeatable)")
	f.changed = flags.Changed
	sources := append([]string{"paydb", "lockdb"}, restore.Sources()...)
	// The flag exists: it was added above.
	_ = cmd.RegisterFlagCompletionFunc("accept-missing", cobra.FixedCompletions(sources, cobra.ShellCompDirectiveNoFileComp))
}

// options are what the flags say to the restore.
func (f *evidenceFlags) options() (restore.Options, error) {
	switch {
	case f.margin < 1:
		return restore.Options{}, app.UsageError("leave it out for 2^32", "--margin %d is below 1", f.margin)
	case len(f.observed.of) > 0 || len(f.from) > 0:
		return restore.Options{}, app.UsageError("a token counts for all keys here: --observed N", "--from and --observed KEY=N are for the backend syncguard")
	}
	return restore.Options{
		Margin: lockstore.Token(f.margin), Observed: f.observed.Token, NoTokenAbove: f.noTokenAbove.Token, AcceptMissing: f.acceptMissing, Again: f.again,
	}, nil
}

// words are the flags again, for a command that is printed to be run.
func (f *evidenceFlags) words() []string {
	var words []string
	for _, source := range f.acceptMissing {
		words = append(words, "--accept-missing", source)
	}
	for _, flag := range []struct {
		name string
		app.TokenFlag
	}{{"--observed", f.observed.TokenFlag}, {"--no-token-above", f.noTokenAbove}} {
		if flag.Token != 0 {
			words = append(words, flag.name, flag.String())
		}
	}
	if f.margin != int64(restore.DefaultMargin) {
		words = append(words, "--margin", lockstore.Token(f.margin).String())
	}
	if f.again {
		words = append(words, "--again")
	}
	if f.oldPrimary != "" {
		words = append(words, "--old-primary-dsn-file", f.oldPrimary)
	}
	return words
}

// given names the flags that were given among names.
func given(flags *pflag.FlagSet, names ...string) []string {
	var found []string
	for _, name := range names {
		if flags.Changed(name) {
			found = append(found, "--"+name)
		}
	}
	return found
}

// access says how the databases are opened.
type access struct {
	// changing: something will be moved, not only looked at.
	changing, terminate bool
	oldPrimary          string
}

// open opens everything a restore looks at, and returns what closes it. What
// cannot be reached of paydb and the old primary is evidence that is missing; a
// wrong address is an error.
func open(ctx context.Context, a *app.App, how access) (stores restore.Stores, closeAll func(), err error) {
	cfg, err := a.Config()
	if err != nil {
		return stores, nil, err
	}
	var closers []func(context.Context)
	closeOpened := func() {
		ctx, cancel := app.CleanUp(ctx)
		defer cancel()
		for _, closeOne := range closers {
			closeOne(ctx)
		}
	}
	defer func() {
		if err != nil {
			closeOpened()
		}
	}()
	lockPurpose, payPurpose := postgres.Reading, paystore.Reading
	if how.changing {
		lockPurpose, payPurpose = postgres.Changing, paystore.Changing
	}
	lock, err := a.Rewinder(ctx, lockPurpose, how.terminate)
	if err != nil {
		return stores, nil, err
	}
	stores.Lock, closers = lock, append(closers, lock.Close)
	pay, err := a.Floors(ctx, payPurpose, how.terminate)
	switch {
	case err != nil && (ctx.Err() != nil || misled(err)):
		return stores, nil, err
	case err != nil:
		stores.PayProblem = err
	case pay != nil:
		stores.Pay, closers = pay, append(closers, pay.Close)
	}
	stores.NoPayments = cfg.NoPayments
	if stores.Mark, err = openMark(ctx, cfg.MarkDir, lock); err != nil {
		return stores, nil, err
	}
	stores.Old, stores.OldProblem, err = askOldPrimary(ctx, lock, how.oldPrimary)
	return stores, closeOpened, err
}

// misled tells that the address of paydb is wrong or that paydb is not to be
// touched: no operator should accept that as missing.
func misled(err error) bool {
	var failure *app.Failure
	var environment *instance.EnvironmentError
	var schema *paystore.SchemaError
	return errors.As(err, &failure) || errors.As(err, &environment) || errors.Is(err, paystore.ErrSameInstance) ||
		errors.As(err, &schema) && schema.IsLockdb
}

func openMark(ctx context.Context, dir string, lock lockstore.Rewinder) (*mark.Mark, error) {
	if dir == "" {
		return nil, nil
	}
	deployment, err := lock.Deployment(ctx)
	if err != nil {
		return nil, err
	}
	m, err := mark.Open(dir, deployment.ID)
	if err != nil {
		return nil, app.UsageError("put the folder back; if it is lost: --mark-dir '' --accept-missing outside_mark", "%v", err)
	}
	return m, nil
}

// askOldPrimary asks the primary of before, where one is named. That it does not
// answer is a problem of the evidence; that it is another lockdb is a wrong address.
func askOldPrimary(ctx context.Context, lock lockstore.Rewinder, file string) (old *lockstore.OldPrimary, problem, err error) {
	if file == "" {
		return nil, nil, nil
	}
	config, err := app.ReadDSNFile("--old-primary-dsn-file", file)
	if err != nil {
		return nil, nil, err
	}
	knows, ok := lock.(*postgres.Rewinder)
	if !ok {
		return nil, nil, app.UsageError("leave it out; a token that you know of is --observed N", "--old-primary-dsn-file is for a lockdb on PostgreSQL")
	}
	answer, err := knows.OldPrimary(ctx, config)
	_, wrong := errors.AsType[*postgres.NotOldPrimaryError](err)
	switch {
	case wrong:
		return nil, nil, app.UsageError("give the address of the primary of before, or leave --old-primary-dsn-file out; a token that you know of is --observed N",
			"%v (from %s)", err, file)
	case err != nil && ctx.Err() != nil:
		return nil, nil, err
	case err != nil:
		return nil, err, nil
	}
	return &answer, nil, nil
}

// atOldPrimary puts the file into the fixes that are run at the old primary.
func atOldPrimary(fixes []string, file string) []string {
	named := make([]string, len(fixes))
	for i, fix := range fixes {
		named[i] = strings.ReplaceAll(fix, "--lock-dsn-file "+restore.OldPrimaryFile, "--lock-dsn-file "+app.Quoted(file))
	}
	return named
}
