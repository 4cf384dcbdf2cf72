// Package demo holds the verb that plays the whole story on two databases of
// its own, from nothing, and takes them away again.
package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/stage"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the demo command.
func New(a *app.App) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play the whole story on two databases of its own",
		Long: "Start two PostgreSQL instances in a folder of their own, apply both schemas, and let two\n" +
			"workers contend for a lock: the second takes over with a higher token, the first is refused,\n" +
			"an operator revokes with a reason. Then the lock protects a payout: the stale holder is refused\n" +
			"at the rail and at the account, and reconcile names who authored a leg that was changed by hand.\n" +
			"At last lockdb comes back from an old copy, grants nothing until it is moved forward, and no token\n" +
			"is issued twice.\n" +
			"Every outcome is read back from the databases; one that is not what it must be ends in exit 1.\n" +
			"Everything is removed again, unless --keep.",
		Example: "  dlockctl demo\n  dlockctl demo -o json\n  dlockctl demo --keep",
		Args:    app.Args(),
		RunE: a.RunWithin(stage.Within, func(ctx context.Context, _ []string) error {
			return stage.Run(ctx, a, stage.Options{Name: "demo", Keep: keep}, func(ctx context.Context, cast scenario.Cast) error { return tell(ctx, a, cast) })
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the two instances running, and say how to reach them")
	cmd.Flags().String("pg-bin", "", "folder of the PostgreSQL programs (default: search)") // read through the configuration
	return cmd
}

// tell plays the story, shows it, and fails unless every outcome is what it
// must be.
func tell(ctx context.Context, a *app.App, cast scenario.Cast) error {
	readable := a.Format() == ui.Table || a.Format() == ui.Wide
	var shown *show
	if readable {
		var err error
		if shown, err = newShow(a); err != nil {
			return err
		}
		cast.Tell = shown.event
	}
	started := a.Streams.Now()
	outcomes := scenario.Takeover(ctx, cast)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("play the story: %w", cause)
	}
	if readable {
		if shown.err != nil {
			return fmt.Errorf("show the story: %w", shown.err)
		}
		a.Note("")
		a.Note("%d outcomes, all read back from the databases, in %s.", len(outcomes), a.Streams.Now().Sub(started).Round(time.Second/10))
	} else if err := a.Print(view(outcomes)); err != nil {
		return err
	}
	if scenario.AllOK(outcomes) {
		return nil
	}
	var wrong []string
	for _, o := range outcomes {
		if !o.OK {
			wrong = append(wrong, o.ID)
		}
	}
	return &app.Failure{
		Exit: app.Unexpected, Code: "demo_failed",
		Message: fmt.Sprintf("%d of %d outcomes are not what they must be: %s", len(wrong), len(outcomes), strings.Join(wrong, ", ")),
		Hint:    "run it again with -o json, and report what it prints",
	}
}

func view(outcomes []scenario.Outcome) ui.View {
	return ui.View{
		Data: outcomes,
		Columns: []ui.Column{
			{Title: "OUTCOME", Field: "id"},
			{Title: "OK", Field: "ok"},
			{Title: "MUST", Field: "must"},
			{Title: "SAW", Field: "saw"},
			{Title: "CLAUSE", Field: "clause"},
		},
		Name: "id",
	}
}
