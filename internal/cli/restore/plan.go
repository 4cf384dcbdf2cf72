package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// lookWithin is the deadline of a look at all sources: an unindexed one of a large
// paydb takes a while.
const lookWithin = 5 * time.Minute

type planOptions struct {
	evidenceFlags

	out string
}

func newPlanCmd(a *app.App) *cobra.Command {
	var opts planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what was set back, how that is known, and what a fast-forward would do",
		Long: "Look at every place that remembers tokens, in both databases and outside of them, and say which\n" +
			"sign shows that lockdb was set back, where a fast-forward would land, and what it would end. It\n" +
			"changes nothing, and SELECT as dlock_auditor is enough. A source that cannot be read is\n" +
			"unavailable, never 0: without --accept-missing it refuses.\n\n" +
			"Exit 0 when a fast-forward would be ADVANCED or SAFE, 6 when it would be REFUSED_TRAFFIC,\n" +
			"REFUSED_EVIDENCE or REFUSED_CONFIG. --out keeps the plan in a file, for fast-forward --plan.",
		Example: "  dlockctl restore plan\n" +
			"  dlockctl restore plan --observed 90133 --out tonight.plan\n" +
			"  dlockctl restore plan --accept-missing ledger_entry.fence -o json",
		Args: app.Args(),
		RunE: a.RunWithin(lookWithin, func(ctx context.Context, _ []string) error { return runPlan(ctx, a, opts) }),
	}
	opts.add(cmd, true)
	cmd.Flags().StringVar(&opts.out, "out", "", "write the plan to this `FILE`")
	return cmd
}

func runPlan(ctx context.Context, a *app.App, opts planOptions) error {
	if counted, err := onCounters(a); err != nil {
		return err
	} else if counted {
		return runCountersPlan(ctx, a, opts)
	}
	what, err := opts.options()
	if err != nil {
		return err
	}
	plan, err := prepare(ctx, a, what, opts.oldPrimary)
	if err != nil {
		return err
	}
	next := opts.words()
	if opts.out != "" {
		if err := writePlan(opts.out, plan); err != nil {
			return err
		}
		next = planWords(opts.out, opts.oldPrimary)
	}
	return showPlan(a, plan, next)
}

// planWords are the flags of a fast-forward that follows a plan file.
func planWords(file, oldPrimary string) []string {
	words := []string{"--plan", file}
	if oldPrimary != "" {
		words = append(words, "--old-primary-dsn-file", oldPrimary)
	}
	return words
}

// prepare makes a plan and changes nothing.
func prepare(ctx context.Context, a *app.App, what restore.Options, oldPrimary string) (restore.Plan, error) {
	stores, closeAll, err := open(ctx, a, access{oldPrimary: oldPrimary})
	if err != nil {
		return restore.Plan{}, err
	}
	defer closeAll()
	plan, err := restore.Prepare(ctx, stores, what)
	plan.Fixes = atOldPrimary(plan.Fixes, oldPrimary)
	return plan, err
}

// writePlan writes the plan file whole or not at all. It takes the place of a file
// alone: /dev/null is not to be renamed over.
func writePlan(path string, plan restore.Plan) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return app.UsageError("name a file, there or not", "begin the plan file: %s is no regular file", path)
	}
	var text bytes.Buffer
	if err := plan.Write(&text); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600: it names who is connected
	if err != nil {
		return app.UsageError("name a file in a folder that you may write", "begin the plan file: %v", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(text.Bytes())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write the plan file: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write the plan file: %w", err)
	}
	return nil
}

// readPlan reads a plan file. It opens nothing else: a pipe would wait for a writer,
// deaf to signals.
func readPlan(path string) (restore.Plan, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return restore.Plan{}, app.UsageError("dlockctl restore plan --out FILE makes one", "open the plan file: %s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return restore.Plan{}, app.UsageError("dlockctl restore plan --out FILE makes one", "open the plan file: %v", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	return restore.ReadPlan(file)
}
