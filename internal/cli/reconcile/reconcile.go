// Package reconcile holds the verbs that compare the money with itself, and name
// who broke what.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// mostWorkers is how many connections a run may take: a server has a hundred, unless
// somebody said otherwise, and they are not for it.
const mostWorkers = 32

// shortestRun is what --max-duration may say at least. In less nothing is begun, and
// that would look like a database that does not answer.
const shortestRun = time.Second

// longestRun is what it may say at most: for so long nothing is vacuumed, and the server
// counts its own time-outs in milliseconds of 32 bits.
const longestRun = 7 * 24 * time.Hour

// The flags of what a run compares with, which explain has too.
const (
	statementFlag = "rail-statement"
	sinceFlag     = "since"
	baselineFlag  = "baseline"
)

type options struct {
	scope       reconcile.Scope
	failOn      level
	maxDuration time.Duration
	workers     int
	report      string
	statement   string
	since       string
	baseline    string
	seal        string
}

// New returns the reconcile command, which checks by itself and holds the verbs
// around it.
func New(a *app.App) *cobra.Command {
	opts := options{failOn: level{reconcile.Low}}
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare the money with itself, and name who broke what",
		Long: "Check every rule of the catalogue over one snapshot of paydb and a later one of lockdb. It only\n" +
			"reads; a login of dlock_auditor is enough. What looks wrong is read a second time before it is\n" +
			"reported, and what work in flight explains is no break. Each break names the token, and whose it\n" +
			"was, as surely as that can be said. Nothing is put right: see reconcile propose.\n\n" +
			"Exit 0 when it is CLEAN, 7 with breaks at or above --fail-on, 11 when it is INCOMPLETE: a right was\n" +
			"missing, the time ran out, nothing was there to be checked. An incomplete run is never clean.\n" +
			"Ctrl-C ends it, and what was found until then is printed.",
		Example: "  dlockctl reconcile\n" +
			"  dlockctl reconcile --report money.html\n" +
			"  dlockctl reconcile --rail-statement paid.csv\n" +
			"  dlockctl reconcile --seal monday.seal\n" +
			"  dlockctl reconcile --since monday.seal --seal tuesday.seal\n" +
			"  dlockctl reconcile --currency EUR --rule balance_drift --rule B01 -o json\n" +
			"  dlockctl reconcile --fail-on critical --max-duration 2m",
		Args: noVerb,
		RunE: a.RunWaiting(func() time.Duration { return onTop(a, opts.maxDuration) },
			func(ctx context.Context, _ []string) error { return runReconcile(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&opts.scope.Accounts, "account", nil, "only this account `ID` (repeatable)")
	flags.StringSliceVar(&opts.scope.Currencies, "currency", nil, "only this currency `CODE`, such as EUR (repeatable)")
	flags.StringSliceVar(&opts.scope.Rules, "rule", nil, "only this `RULE`, by id or name (repeatable)")
	flags.Var(&opts.failOn, "fail-on", "exit 7 with a break at or above this `LEVEL`: critical|high|medium|low")
	flags.DurationVar(&opts.maxDuration, "max-duration", reconcile.DefaultMaxDuration, "end after so long, INCOMPLETE; it holds vacuum back meanwhile")
	flags.StringVar(&opts.report, "report", "", "write the report to this `FILE` too: .html, .json or .csv")
	flags.StringVar(&opts.statement, statementFlag, "", "compare with the rail's own list too: a CSV `FILE` with the columns reference, key, amount_minor, currency")
	flags.StringVar(&opts.since, sinceFlag, "", "go on from this seal: a `FILE` that --seal wrote")
	flags.StringVar(&opts.baseline, baselineFlag, "", "compare openings and tokens with this baseline: a `FILE` of reconcile baseline")
	flags.StringVar(&opts.seal, "seal", "", "write a seal to this `FILE` when the run is CLEAN, for a later --since")
	app.WholeVar(flags, &opts.workers, "workers", reconcile.DefaultWorkers, "connections that read paydb at once")
	complete(cmd)
	cmd.AddCommand(newRulesCmd(a), newExplainCmd(a), newBaselineCmd(a), newDiffCmd(a), newProposeCmd(a))
	return cmd
}

// noVerb refuses a word that may have been meant as one of its verbs.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean: " + cmd.CommandPath() + " " + near[0]
	}
	return app.UsageError(hint, "%s has no command %q", cmd.CommandPath(), args[0])
}

// onTop is how much longer than other commands a run may take, unless --timeout
// says how long all of it may.
func onTop(a *app.App, maxDuration time.Duration) time.Duration {
	cfg, err := a.Config()
	if err != nil || cfg.Origin("timeout").Layer != config.Default {
		return 0
	}
	return maxDuration
}

func runReconcile(ctx context.Context, a *app.App, opts options) error {
	engine, err := opts.engine(a)
	if err != nil {
		return err
	}
	file, err := newReportFile(opts.report)
	if err != nil {
		return err
	}
	defer file.discard()
	if opts.seal != "" {
		seal, err := sealInto(a, &engine, opts.seal)
		if err != nil {
			return err
		}
		defer seal.discard()
		return runAndShow(ctx, a, opts, engine, file, seal)
	}
	return runAndShow(ctx, a, opts, engine, file, nil)
}

func runAndShow(ctx context.Context, a *app.App, opts options, engine reconcile.Options, file *reportFile, seal *draft) error {
	report, err := run(ctx, a, engine)
	if err != nil {
		return err
	}
	if err := show(a, report); err != nil {
		return err
	}
	if file != nil {
		if err := file.write(report, engine); err != nil {
			return err
		}
		a.Aside("the report is in %s", opts.report)
	}
	if seal != nil && report.Sealed {
		if err := seal.finish(); err != nil {
			return err
		}
		a.Aside("the seal is in %s", opts.seal)
	}
	return verdict(ctx, report, opts.failOn.Severity)
}

// sealInto has the run write a seal, which is finished when the report says so.
func sealInto(a *app.App, engine *reconcile.Options, path string) (*draft, error) {
	by, err := a.Operator()
	if err != nil {
		return nil, err
	}
	seal, err := newDraft(path, "the seal")
	if err != nil {
		return nil, err
	}
	engine.Seal = &reconcile.Sealing{To: seal.file, By: by}
	return seal, nil
}

// engine is what the run is told.
func (o options) engine(a *app.App) (reconcile.Options, error) {
	if o.workers < 1 {
		return reconcile.Options{}, app.UsageError("give 1 or more", "--workers %d is none", o.workers)
	}
	if o.workers > mostWorkers {
		return reconcile.Options{}, app.UsageError(fmt.Sprintf("give %d or less", mostWorkers), "--workers %d would leave no connection of paydb to others", o.workers)
	}
	if o.seal != "" && len(o.scope.Accounts)+len(o.scope.Currencies)+len(o.scope.Rules) > 0 {
		return reconcile.Options{}, app.UsageError("seal a run without --account, --currency and --rule", "--seal vouches for everything, and this run looks at a part")
	}
	if o.maxDuration < shortestRun {
		return reconcile.Options{}, app.UsageError("give how long it may take, such as 10m",
			"--max-duration %s is less than %s, in which nothing can be begun", o.maxDuration, shortestRun)
	}
	if o.maxDuration > longestRun {
		return reconcile.Options{}, app.UsageError("give a shorter one, such as 10m; --since and --account check less",
			"--max-duration %s is more than %s, for which nothing would be vacuumed", o.maxDuration, longestRun)
	}
	engine := reconcile.Options{Scope: o.scope, Workers: o.workers, MaxDuration: o.maxDuration}
	if err := o.compareWith(&engine); err != nil {
		return reconcile.Options{}, err
	}
	return engine, reach(a, &engine)
}

// compareWith reads the files that the run compares with.
func (o options) compareWith(engine *reconcile.Options) (err error) {
	switch {
	case o.since != "" && o.baseline != "":
		return app.UsageError("leave one of them out: a seal holds what a baseline holds", "--since and --baseline are both given")
	case o.since != "":
		engine.Previous, err = readFile(o.since, "the seal", func(r io.Reader) (*reconcile.Previous, error) { return reconcile.ReadPrevious(r, true) })
	case o.baseline != "":
		engine.Previous, err = readFile(o.baseline, "the baseline", func(r io.Reader) (*reconcile.Previous, error) { return reconcile.ReadPrevious(r, false) })
	}
	if err == nil && o.statement != "" {
		engine.Statement, err = readFile(o.statement, "the rail statement", reconcile.ReadStatement)
	}
	return err
}

// reach says where the databases are. That lockdb is not configured is a gap of the
// run, not its end.
func reach(a *app.App, engine *reconcile.Options) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if cfg.Backend == config.SyncGuard {
		// A fence of one key says nothing about another, and there is no journal.
		return app.WithHint(fmt.Errorf("the backend syncguard has no tokens that paydb's rows could be traced by: %w", lockstore.ErrUnsupported),
			"reconcile takes the backend postgres or etcd")
	}
	if engine.Pay, err = a.PayConfig(); err != nil {
		return err
	}
	var failure *app.Failure
	engine.Lock, err = a.LockdbConfig()
	switch {
	case errors.As(err, &failure) && failure.Code == "no_database":
		engine.Lock = nil
	case err != nil:
		return err
	}
	// The run may take long, but a host that does not answer is known sooner.
	for _, database := range []*pgx.ConnConfig{engine.Pay, engine.Lock} {
		if database != nil && database.ConnectTimeout == 0 {
			database.ConnectTimeout = cfg.Timeout
		}
	}
	return nil
}

// run runs the check and shows how far it is.
func run(ctx context.Context, a *app.App, engine reconcile.Options) (reconcile.Report, error) {
	color, err := colorMode(a)
	if err != nil {
		return reconcile.Report{}, err
	}
	if a.ForPeople() || a.Streams.ErrTTY {
		progress := a.Streams.NewProgress("reconcile", color)
		defer progress.End()
		engine.Progress = func(p reconcile.Progress) {
			progress.Show(ui.Step{Done: p.Done, Total: p.Total, What: p.Family, Elapsed: p.Elapsed, Left: p.Left})
		}
	}
	report, err := reconcile.Run(ctx, engine)
	return report, usage(err)
}

// usage makes what names nothing wrong usage.
func usage(err error) error {
	var scope *reconcile.ScopeError
	if !errors.As(err, &scope) {
		return err
	}
	name := "--" + scope.Field
	if scope.Field == "finding" {
		name = scope.Field // an argument
	}
	return app.UsageError("dlockctl reconcile rules lists the rules", "%s %q: %s", name, scope.Value, scope.Want)
}

func colorMode(a *app.App) (ui.ColorMode, error) {
	cfg, err := a.Config()
	if err != nil {
		return "", err
	}
	return ui.ParseColorMode(cfg.Color)
}

// verdict makes the outcome an exit code: breaks at or above the level first, then
// what stopped the run, then that it is incomplete.
func verdict(ctx context.Context, report reconcile.Report, failOn reconcile.Severity) error {
	breaks := 0
	first := ""
	for _, f := range report.Findings {
		if !f.IsBreak() || !f.Severity.AtLeast(failOn) {
			continue
		}
		if breaks++; first == "" {
			first = strings.Join(append([]string{f.ID}, reconcile.ExplainedWith(f.Class)...), " ")
		}
	}
	details := map[string]any{"outcome": report.Outcome, "complete": report.Complete, "breaks": breaks}
	switch {
	case breaks > 0:
		return &app.Failure{
			Exit: app.Findings, Code: "findings", Message: count(breaks, "break") + " at or above " + string(failOn) + incomplete(report),
			Hint: "the first: dlockctl reconcile explain " + first, Details: details,
		}
	case report.Complete:
		return nil
	case app.Stopped(ctx) != nil && app.BySignal(ctx):
		return fmt.Errorf("%w: the check is INCOMPLETE", app.Stopped(ctx))
	}
	return &app.Failure{
		Exit: app.Incomplete, Code: "incomplete", Message: "not everything was checked; this is not a clean result",
		Hint: "the report says what was not, and why", Details: details,
	}
}

func incomplete(report reconcile.Report) string {
	if report.Complete {
		return ""
	}
	return ", and not everything was checked"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// level is the value of --fail-on.
type level struct{ reconcile.Severity }

// String returns the level.
func (l *level) String() string { return string(l.Severity) }

// Set reads a level and refuses what is none.
func (l *level) Set(text string) error {
	if !slices.Contains(reconcile.Severities(), reconcile.Severity(text)) {
		return errors.New("give critical, high, medium or low")
	}
	l.Severity = reconcile.Severity(text)
	return nil
}

// Type names the value in --help.
func (l *level) Type() string { return "LEVEL" }
