// Package drill holds the verbs that prove the fencing: each plays a disaster on
// two throw-away databases, and reports what was expected and what was seen.
package drill

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/stage"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the drill command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Play a disaster on throw-away databases, and prove the fence",
		Long: "Start two PostgreSQL instances in a folder of their own, apply both schemas, play a disaster with\n" +
			"real clients, and report each step: what was expected, what the databases said, the token and its\n" +
			"holder. Your own databases are not touched, and everything is removed again. A step that is not as\n" +
			"expected ends in exit 1.",
		Example: "  dlockctl drill restore\n  dlockctl drill stale-holder -o json",
	}
	cmd.PersistentFlags().String("pg-bin", "", "folder of the PostgreSQL programs (default: search)") // read through the configuration
	cmd.AddCommand(
		newCmd(a, story{
			name: "restore", short: "Set lockdb back to before its last grants, and bring it forward",
			long: "A worker holds a lock, and lockdb is copied. Another worker gets a token that the copy lacks, and a\n" +
				"payout is posted with it. Then the copy takes lockdb's place: it is exact, it keeps system identifier\n" +
				"and timeline, so only the comparison of tokens can tell. Clients resume and are refused; lockdb is\n" +
				"fast-forwarded; the first new token is above everything; the holder of the forgotten token is refused\n" +
				"at the account and at the rail.",
			play: scenario.DrillRestore,
		}),
		newCmd(a, story{
			name: "stale-holder", short: "Let a holder stall, lose its lock, and come back",
			long: "A worker stalls past its lease, and another takes the lock over. The first comes back with its token:\n" +
				"it cannot renew or release, and with a payout in hand it is refused at the rail and at the account.",
			play: scenario.DrillStaleHolder,
		}),
	)
	return app.Group(cmd)
}

// story is one drill.
type story struct {
	name, short, long string
	play              func(context.Context, scenario.Cast) []scenario.DrillStep
}

func newCmd(a *app.App, s story) *cobra.Command {
	return &cobra.Command{
		Use:     s.name,
		Short:   s.short,
		Long:    s.long,
		Example: fmt.Sprintf("  dlockctl drill %s\n  dlockctl drill %[1]s -o json", s.name),
		Args:    app.Args(),
		RunE: a.RunWithin(stage.Within, func(ctx context.Context, _ []string) error {
			return stage.Run(ctx, a, stage.Options{Name: "drill"}, func(ctx context.Context, cast scenario.Cast) error { return run(ctx, a, s, cast) })
		}),
	}
}

// run plays the drill, reports, and fails unless every step passed.
func run(ctx context.Context, a *app.App, s story, cast scenario.Cast) error {
	cast.Tell = func(e scenario.Event) {
		if e.Step != "" {
			a.Progress(e.Step)
		}
	}
	steps := s.play(ctx, cast)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("play the drill: %w", cause)
	}
	if err := a.Print(view(steps)); err != nil {
		return err
	}
	if scenario.AllPassed(steps) {
		return nil
	}
	var failed []string
	for _, step := range steps {
		if step.Verdict != scenario.Passed {
			failed = append(failed, step.Step)
		}
	}
	return &app.Failure{
		Exit: app.Unexpected, Code: "drill_failed",
		Message: fmt.Sprintf("%d of %d steps are not as expected: %s", len(failed), len(steps), strings.Join(failed, ", ")),
		Hint:    fmt.Sprintf("run it again with -o json, and report what it prints: dlockctl drill %s -o json", s.name),
	}
}

func view(steps []scenario.DrillStep) ui.View {
	return ui.View{
		Data: steps,
		Columns: []ui.Column{
			{Title: "STEP", Field: "step"},
			{Title: "VERDICT", Field: "verdict", Tones: map[string]ui.Tone{string(scenario.Passed): ui.Good, string(scenario.Failed): ui.Bad}},
			{Title: "TOKEN", Field: "token", Kind: ui.Number, Blank: "0"},
			{Title: "HOLDER", Field: "holder", Blank: ""},
			{Title: "EXPECTED", Field: "expected"},
			{Title: "SEEN", Field: "seen", Wide: true},
		},
		Name: "step",
	}
}
