package serve

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
)

type railSimOptions struct {
	mood, state string
	seed        int64
	delay       time.Duration
}

func newRailSimCmd(a *app.App) *cobra.Command {
	var opts railSimOptions
	cmd := &cobra.Command{
		Use:   "rail-sim",
		Short: "Play a payment rail, in a good or a bad mood",
		Long: "Play a payment rail that speaks the protocol of docs/rail.md and moves no money. Its mood decides\n" +
			"what becomes of a payment: " + moods() + ".\n" +
			"GET /sim/payments counts what reached it; PUT /sim/mood changes the mood. Refused on a protected\n" +
			"profile.",
		Example: "  dlockctl serve rail-sim\n  dlockctl serve rail-sim --mood flaky --seed 7 --state rail.jsonl",
	}
	cmd = command(a, cmd, railSimPort, func(ctx context.Context, f *frame) error { return runRailSim(ctx, f, opts) })
	flags := cmd.Flags()
	flags.StringVar(&opts.mood, "mood", "", "`MOOD` to begin with (default: the one in --state, else ack)")
	app.WholeVar(flags, &opts.seed, "seed", 0, "what flaky draws from")
	flags.DurationVar(&opts.delay, "delay", 0, "how long the mood delay waits (default 2s)")
	flags.StringVar(&opts.state, "state", "", "`FILE` that keeps what was asked for over a restart")
	return cmd
}

func moods() string {
	var names []string
	for _, name := range railsim.Names() {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

func runRailSim(ctx context.Context, f *frame, opts railSimOptions) error {
	if err := unprotected(f.cfg, "a simulated rail pays nobody"); err != nil {
		return err
	}
	open := railsim.Options{StateFile: opts.state}
	if opts.mood != "" {
		open.Mood = &railsim.Mood{Name: railsim.Name(opts.mood), Seed: opts.seed, DelayMS: opts.delay.Milliseconds()}
	}
	sim, err := railsim.Open(open)
	if err != nil {
		return app.UsageError("", "%v", err)
	}
	defer func() {
		if err := sim.Close(); err != nil {
			f.log.Error("the state file may lack the last payments", slog.String("error", err.Error()))
		}
	}()
	return f.serve(ctx, sim)
}
