package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newExplainCmd(a *app.App) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "explain FINDING",
		Short: "Tell a finding in order of time, over both databases",
		Long: "Find a finding again by its id, name who is behind it and how sure that is, and tell what the\n" +
			"tokens did to the account: who was granted which, what was written under it, how it ended, and\n" +
			"which of that is the break. What could not be told is said. It only reads. A finding of the rules that\n" +
			"compare with the rail's statement, a seal or a baseline is found with that file only.\n\n" +
			"Exit 3 when the finding is not there, or not any more, and 11 when its rule could not be checked.",
		Example: "  dlockctl reconcile explain B12-5a1c9e77881d2f03\n  dlockctl reconcile explain B12-5a1c9e77881d2f03 -o json\n" +
			"  dlockctl reconcile explain S03-0d3f5c1be2a94476 --rail-statement paid.csv",
		Args: app.Args("FINDING"),
		RunE: a.RunWaiting(func() time.Duration { return onTop(a, reconcile.DefaultMaxDuration) },
			func(ctx context.Context, args []string) error { return runExplain(ctx, a, opts, args[0]) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.statement, statementFlag, "", "the rail's own list that the finding is of: a CSV `FILE`")
	flags.StringVar(&opts.since, sinceFlag, "", "the seal that the finding is of: a `FILE` that --seal wrote")
	flags.StringVar(&opts.baseline, baselineFlag, "", "the baseline that the finding is of: a `FILE` of reconcile baseline")
	_ = cmd.MarkFlagFilename(statementFlag, "csv") // it was added above
	return cmd
}

func runExplain(ctx context.Context, a *app.App, opts options, id string) error {
	var engine reconcile.Options
	if err := opts.compareWith(&engine); err != nil {
		return err
	}
	if err := reach(a, &engine); err != nil {
		return err
	}
	told, err := reconcile.Explain(ctx, engine, id)
	var gone *reconcile.NoFindingError
	switch {
	case errors.As(err, &gone) && len(gone.Unchecked) > 0:
		return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: gone.Error(), Hint: unchecked(engine, id)}
	case errors.As(err, &gone):
		return &app.Failure{Exit: app.NotFound, Code: "not_found", Message: gone.Error(), Hint: "run dlockctl reconcile again: what it lists is there now"}
	case err != nil:
		return usage(err)
	}
	if !a.ForPeople() {
		return a.Print(ui.View{Data: told, Rows: told.Timeline.Events, Columns: momentColumns(), Name: "kind"})
	}
	color, err := colorMode(a)
	if err != nil {
		return err
	}
	t := newTable(a, color)
	told.Finding.Next = "" // this is it
	t.finding(told.Finding)
	t.wrapped("rule", told.Rule)
	if told.Pending {
		t.wrapped("", "work in flight explains it, until the rule's grace is over")
	}
	if n := told.Timeline.LeftOut; n > 0 {
		t.say("\n%s\n", t.styles.Paint(ui.Faint, fmt.Sprintf("%d earlier events are not told", n)))
	}
	for _, m := range told.Timeline.Events {
		t.moment(m)
	}
	for _, gap := range told.Unknown {
		a.Aside("unknown: %s", gap)
	}
	return t.err
}

// unchecked says what lets the rule of a finding be checked.
func unchecked(engine reconcile.Options, id string) string {
	class, _, _ := strings.Cut(id, "-")
	with := reconcile.ExplainedWith(class)
	given := engine.Previous != nil
	if slices.Contains(with, "--"+statementFlag) {
		given = engine.Statement != nil
	}
	if len(with) > 0 && !given {
		return "add the file that the run compared with: " + strings.Join(with, " ")
	}
	return "put right what keeps the rule from being checked: dlockctl doctor"
}

// moment prints an event: who, when and what in a line, then how.
func (t *table) moment(m reconcile.Moment) {
	at := "not recorded"
	if !m.At.IsZero() {
		at = m.At.UTC().Format("2006-01-02 15:04:05.000Z")
	}
	line := fmt.Sprintf("%s  %s", at, t.styles.Paint(kindTones()[m.Kind], string(m.Kind)))
	if m.Token != 0 {
		line += "  token " + m.TokenStr
	}
	if m.Holder != "" {
		line += " of " + ui.Visible(m.Holder)
	}
	if m.Finding != "" {
		line += "  " + t.styles.Paint(ui.Alarm, "break "+ui.Visible(m.Finding))
	}
	t.say("\n%s\n", line)
	t.wrapped("", fmt.Sprintf("%s (%s)", m.What, m.Source))
}

func kindTones() map[reconcile.MomentKind]ui.Tone {
	return map[reconcile.MomentKind]ui.Tone{
		reconcile.MomentGranted: ui.Good, reconcile.MomentRevoked: ui.Bad, reconcile.MomentVoided: ui.Bad,
		reconcile.MomentRefused: ui.Warn, reconcile.MomentFenceRaised: ui.Warn,
	}
}

func momentColumns() []ui.Column {
	return []ui.Column{
		{Field: "at"}, {Field: "kind"}, {Field: "token"}, {Field: "holder"}, {Field: "payout_id"}, {Field: "what"}, {Field: "source"}, {Field: "finding"},
	}
}

// newTable prints parts of a report for a person.
func newTable(a *app.App, color ui.ColorMode) *table {
	t := &table{app: a, styles: a.Streams.OutStyles(color), width: a.Streams.Width}
	if t.width == 0 {
		t.width = defaultWidth
	}
	return t
}

// indented is text of several lines as it is, but for what plays with a terminal.
func (t *table) indented(text string) {
	for line := range strings.Lines(text) {
		t.say("    %s\n", ui.Visible(strings.TrimRight(line, "\n")))
	}
}
