package reconcile

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newProposeCmd(a *app.App) *cobra.Command {
	var from string
	opts := options{workers: reconcile.DefaultWorkers}
	cmd := &cobra.Command{
		Use:   "propose",
		Short: "Print a repair for each finding, and run none",
		Long: "Print for each finding what would repair it, why, and what that takes for granted: a statement for\n" +
			"the schema's owner, a command of this program, or that a person has to decide first. Nothing of it\n" +
			"is run, here or anywhere. It checks now, or takes a report that reconcile --report FILE.json wrote.",
		Example: "  dlockctl reconcile propose\n  dlockctl reconcile propose --from monday.json -o json",
		Args:    app.Args(),
		RunE: a.RunWaiting(func() time.Duration { return onTop(a, opts.maxDuration) },
			func(ctx context.Context, _ []string) error { return runPropose(ctx, a, opts, from) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "take the findings of this report `FILE`.json instead of checking now")
	flags.DurationVar(&opts.maxDuration, "max-duration", reconcile.DefaultMaxDuration, "check for at most so long")
	return cmd
}

func runPropose(ctx context.Context, a *app.App, opts options, from string) error {
	report, err := proposeFor(ctx, a, opts, from)
	if err != nil {
		return err
	}
	proposals := reconcile.Propose(report)
	if err := showProposals(a, proposals); err != nil {
		return err
	}
	if report.Complete {
		return nil
	}
	if stopped := app.Stopped(ctx); stopped != nil {
		return stopped
	}
	return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: "not everything was checked: there may be more to repair", Hint: "dlockctl reconcile says what was not"}
}

func proposeFor(ctx context.Context, a *app.App, opts options, from string) (reconcile.Report, error) {
	if from != "" {
		return readFile(from, "the report", reconcile.ReadReport)
	}
	engine, err := opts.engine(a)
	if err != nil {
		return reconcile.Report{}, err
	}
	return run(ctx, a, engine)
}

func showProposals(a *app.App, proposals []reconcile.Proposal) error {
	if !a.ForPeople() || len(proposals) == 0 {
		return a.Print(ui.View{Data: proposals, Name: "finding", Empty: "nothing to repair", Columns: []ui.Column{
			{Field: "finding"}, {Field: "class"}, {Field: "severity"}, {Field: "what"}, {Field: "kind"}, {Field: "do"}, {Field: "because"}, {Field: "undo"},
		}})
	}
	color, err := colorMode(a)
	if err != nil {
		return err
	}
	t := newTable(a, color)
	t.say("Nothing below is run by this program: look at each, then decide.\n")
	for _, p := range proposals {
		t.say("\n%s  %s\n", t.styles.Paint(tones()[string(p.Severity)], string(p.Severity)), t.styles.Paint(ui.Strong, ui.Visible(p.Finding)))
		t.wrapped("", p.What)
		t.wrapped("because", p.Because)
		for _, part := range []struct{ label, text string }{{p.Kind, p.Do}, {"undo", p.Undo}} {
			if part.text != "" {
				t.say("  %s\n", t.styles.Paint(ui.Faint, part.label))
				t.indented(a.Runnable(part.text))
			}
		}
		if p.Do == "" {
			t.wrapped("do", "a person has to decide first")
		}
	}
	return t.err
}
