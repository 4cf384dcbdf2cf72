package reconcile

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// baselineView is a baseline that was taken.
type baselineView struct {
	Path    string            `json:"path"`
	RunID   string            `json:"run_id"`
	By      string            `json:"by"`
	Outcome reconcile.Outcome `json:"outcome"`
	Breaks  int               `json:"breaks"`
}

func newBaselineCmd(a *app.App) *cobra.Command {
	opts := options{workers: reconcile.DefaultWorkers}
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Write down what every account opened with",
		Long: "Check everything once, and write to a file what each account opened with, as recorded or as its\n" +
			"balance and entries imply, the highest tokens, and digests of what is settled. A later run with\n" +
			"--baseline FILE holds the database to it, and has no UNANCHORED account. A baseline says what is,\n" +
			"not that it is right: look at the breaks first. It only reads the databases.",
		Example: "  dlockctl reconcile baseline --out money.baseline\n  dlockctl reconcile --baseline money.baseline",
		Args:    app.Args(),
		RunE: a.RunWaiting(func() time.Duration { return onTop(a, opts.maxDuration) },
			func(ctx context.Context, _ []string) error { return runBaseline(ctx, a, opts) }),
	}
	cmd.Flags().StringVar(&opts.seal, "out", "", "the `FILE` to write (required)")
	cmd.Flags().DurationVar(&opts.maxDuration, "max-duration", reconcile.DefaultMaxDuration, "give up after so long")
	return cmd
}

func runBaseline(ctx context.Context, a *app.App, opts options) error {
	if opts.seal == "" {
		return app.UsageError("add --out FILE", "--out is missing; say where to write the baseline")
	}
	engine, err := opts.engine(a)
	if err != nil {
		return err
	}
	file, err := sealInto(a, &engine, opts.seal)
	if err != nil {
		return err
	}
	defer file.discard()
	engine.Seal.Baseline = true
	report, err := run(ctx, a, engine)
	if err != nil {
		return err
	}
	if !report.Sealed {
		if stopped := app.Stopped(ctx); stopped != nil {
			return stopped
		}
		return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: "no baseline was written: " + strings.Join(report.Notes, "; "), Hint: "dlockctl reconcile says what could not be checked"}
	}
	if err := file.finish(); err != nil {
		return err
	}
	view := baselineView{Path: opts.seal, RunID: report.RunID, By: engine.Seal.By, Outcome: report.Outcome}
	for _, f := range report.Findings {
		if f.IsBreak() {
			view.Breaks++
		}
	}
	if view.Breaks > 0 {
		a.Aside("%s stand in it as they are: look at them with dlockctl reconcile", count(view.Breaks, "break"))
	}
	return a.Print(ui.View{Data: view, Name: "path", Columns: []ui.Column{
		{Title: "FILE", Field: "path"},
		{Title: "RUN", Field: "run_id"},
		{Title: "BY", Field: "by"},
		{Title: "OUTCOME", Field: "outcome"},
		{Title: "BREAKS", Field: "breaks"},
	}})
}
