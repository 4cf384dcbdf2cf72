// Package drill holds the verbs that prove the fencing: each plays a disaster on
// two throw-away databases, or one that leaves nothing on the profile's own, and
// reports what was expected and what was seen.
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
			"holder. Your own databases are not touched, unless --in-place says so, and everything is removed again.\n" +
			"A step that is not as expected ends in exit 1.",
		Example: "  dlockctl drill restore\n  dlockctl drill failover\n  dlockctl drill stale-holder -o json",
	}
	cmd.PersistentFlags().String("pg-bin", "", "folder of the PostgreSQL programs (default: search)") // read through the configuration
	cmd.AddCommand(
		newCmd(a, story{
			name: "restore", short: "Set lockdb back to before its last grants, and bring it forward",
			long: "A worker holds a lock, and lockdb is copied. Another worker gets a token that the copy lacks, and a\n" +
				"payout is posted with it. Then the copy takes lockdb's place: it is exact, it keeps system identifier\n" +
				"and timeline, so only the comparison of tokens can tell. Clients resume and are refused, and it is shown,\n" +
				"in a transaction that is rolled back, that without the guards the same token would be issued again;\n" +
				"lockdb is fast-forwarded; the first new token is above everything; the holder of the forgotten token is refused\n" +
				"at the account and at the rail.",
			play: scenario.DrillRestore,
		}),
		newCmd(a, story{
			name: "failover", short: "Promote a standby that lacks the last grants, and bring it forward",
			long: "lockdb gets an asynchronous standby, and a worker holds a lock. The standby's receiver is stopped, and the\n" +
				"primary acknowledges more: another worker's tokens, and a payout posted with one. Then the primary dies,\n" +
				"and the standby is promoted and takes its address. Clients resume and are refused, and it is shown, in a\n" +
				"transaction that is rolled back, that without the guards the same token would be issued again; lockdb is\n" +
				"fast-forwarded; the first new token is above everything; the holder of the forgotten token is refused at\n" +
				"the account and at the rail.",
			play: scenario.DrillRestore, failover: true,
		}),
		newCmd(a, story{
			name: "stale-holder", short: "Let a holder stall, lose its lock, and come back",
			long: "A worker stalls past its lease, and another takes the lock over. The first comes back with its token:\n" +
				"it cannot renew or release, and with a payout in hand it is refused at the rail and at the account.\n\n" +
				"--in-place plays it on the profile's own databases, where others work: with a lock of its own, and with\n" +
				"an account of currency XTS that lives in one transaction of paydb, which is rolled back. No rail is\n" +
				"asked. What stays is the journal of two grants, which is append-only. The pay login must be able to\n" +
				"SET ROLE dlock_owner.",
			examples: "\n  dlockctl drill stale-holder --in-place",
			play:     scenario.DrillStaleHolder, inPlace: scenario.DrillStaleHolderInPlace,
		}),
		newCmd(a, railTimeout()),
	)
	return app.Group(cmd)
}

// story is one drill.
type story struct {
	name, short, long, examples string
	play                        func(context.Context, scenario.Cast) []scenario.DrillStep
	// inPlace plays it on databases where others work, nil where it cannot be.
	inPlace func(context.Context, scenario.Cast) []scenario.DrillStep
	// failover wants a lockdb with a standby.
	failover bool
}

func newCmd(a *app.App, s story) *cobra.Command {
	var flags inPlaceFlags
	cmd := &cobra.Command{
		Use:     s.name,
		Short:   s.short,
		Long:    s.long,
		Example: fmt.Sprintf("  dlockctl drill %s\n  dlockctl drill %[1]s -o json", s.name) + s.examples,
		Args:    app.Args(),
	}
	onStage := a.RunWithin(stage.Within, func(ctx context.Context, _ []string) error {
		return stage.Run(ctx, a, stage.Options{Name: "drill", Failover: s.failover}, func(ctx context.Context, cast scenario.Cast) error {
			return run(ctx, a, s, s.play, cast)
		})
	})
	inPlace := a.Run(func(ctx context.Context, _ []string) error { return runInPlace(ctx, a, s, flags) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.inPlace {
			return inPlace(cmd, args)
		}
		return onStage(cmd, args)
	}
	if s.inPlace != nil {
		cmd.Flags().BoolVar(&flags.inPlace, "in-place", false, "play on the profile's own databases, not on throw-away ones")
		cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask (with --in-place)")
		app.ConfirmFlag(cmd.Flags())
	}
	return cmd
}

// run plays the drill, reports, and fails unless every step passed.
func run(ctx context.Context, a *app.App, s story, play func(context.Context, scenario.Cast) []scenario.DrillStep, cast scenario.Cast) error {
	cast.Tell = func(e scenario.Event) {
		if e.Step != "" {
			a.Progress(e.Step)
		}
	}
	steps := play(ctx, cast)
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
			{Title: "SEEN", Field: "seen"},
		},
		Name: "step",
	}
}
