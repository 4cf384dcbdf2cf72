// Package doctor holds the verb that looks at every precondition.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the doctor command.
func New(a *app.App) *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at every precondition, and say how to put right what is not",
		Long: "Look at everything that the guarantees rest on, in both databases: guards, token sequence, gates,\n" +
			"roles, settings, clocks. It only reads; SELECT as dlock_auditor is enough. What fails comes first,\n" +
			"with what it means and the statement or command that puts it right, word for word. What could\n" +
			"not be read is unknown, never ok. docs/doctor.md lists the checks.\n\n" +
			"Exit 8 when neither database could be read. With --exit-code, exit 7 when a check fails and 11\n" +
			"when none does and some are unknown.",
		Example: "  dlockctl doctor\n  dlockctl doctor --exit-code -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runDoctor(ctx, a, exitCode) }),
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 7 when a check fails, 11 when none does and some are unknown")
	return cmd
}

func runDoctor(ctx context.Context, a *app.App, exitCode bool) error {
	target, err := targetOf(a)
	if err != nil {
		return err
	}
	report, err := doctor.Run(ctx, target)
	if app.BySignal(ctx) {
		return err // nobody waits for the answer any more
	}
	if printErr := printReport(a, report); printErr != nil {
		return printErr
	}
	switch {
	case err != nil:
		return err
	case len(report.Reached) == 0:
		return &app.Failure{Exit: app.Unreachable, Code: "unreachable", Message: "neither database could be read", Hint: "the checks lockdb_reachable and paydb_reachable say why"}
	case exitCode && report.Fail > 0:
		return &app.Failure{Exit: app.Findings, Code: "findings", Message: count(report.Fail, "check") + " failed", Hint: "run each fix, then dlockctl doctor again"}
	case exitCode && !report.Complete:
		return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: "nothing failed, and " + count(report.Unknown, "check") + " could not be made"}
	}
	return nil
}

// targetOf finds both databases. That one is not configured is a finding.
func targetOf(a *app.App) (doctor.Target, error) {
	cfg, err := a.Config()
	if err != nil {
		return doctor.Target{}, err
	}
	target := doctor.Target{
		AllowSameInstance: cfg.AllowSameInstance,
		Embedded:          cfg.Embedded() && !cfg.Lock.Configured() && !cfg.Pay.Configured(),
	}
	if target.Lock, err = unlessMissing(a.LockConfig()); err != nil {
		return doctor.Target{}, err
	}
	target.Pay, err = unlessMissing(a.PayConfig())
	return target, err
}

func unlessMissing(config *pgx.ConnConfig, err error) (*pgx.ConnConfig, error) {
	var failure *app.Failure
	if errors.As(err, &failure) && failure.Code == "no_database" {
		return nil, nil
	}
	return config, err
}

func printReport(a *app.App, report doctor.Report) error {
	err := a.Print(ui.View{
		Data: report, Rows: report.Results,
		Columns: []ui.Column{
			{Title: "STATUS", Field: "status", Tones: tones()},
			{Title: "ID", Field: "id", Wide: true},
			{Title: "SEVERITY", Field: "severity", Wide: true},
			{Title: "CLAUSE", Field: "clause", Wide: true},
			{Title: "DATABASE", Field: "database"},
			{Title: "CHECK", Field: "title"},
			{Title: "SAW", Field: "saw"},
		},
		Name: "id",
	})
	if err != nil {
		return err
	}
	if format := a.Format(); format == ui.Table || format == ui.Wide {
		if _, err := fmt.Fprint(a.Streams.Out, problems(report)); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		a.Note("%s", summary(report))
	}
	return nil
}

func tones() map[string]ui.Tone {
	return map[string]ui.Tone{
		string(doctor.OK): ui.Good, string(doctor.Warn): ui.Warn, string(doctor.Fail): ui.Bad, string(doctor.Unknown): ui.Warn,
	}
}

// problems says what each check that is not ok means, and its fix. A reason that
// many unknown checks share is said once.
func problems(report doctor.Report) string {
	var b strings.Builder
	said := map[string]bool{}
	for _, r := range report.Results {
		if r.Status == doctor.OK || r.Status == doctor.Unknown && said[r.Saw] {
			continue
		}
		said[r.Saw] = r.Status == doctor.Unknown
		fmt.Fprintf(&b, "\n%s  %s (%s, %s)\n", r.Status, ui.Visible(r.ID), r.Severity, r.Clause)
		line(&b, "saw", r.Saw)
		line(&b, "means", r.Meaning)
		if r.Fix == nil {
			continue
		}
		if r.Fix.Run != "" {
			line(&b, "fix", r.Fix.Where()+":")
			for statement := range strings.Lines(r.Fix.Run) {
				b.WriteString("           " + ui.Visible(strings.TrimRight(statement, "\n")) + "\n")
			}
		}
		if r.Fix.Advice != "" {
			line(&b, "note", r.Fix.Advice)
		}
	}
	return b.String()
}

func line(b *strings.Builder, label, text string) {
	fmt.Fprintf(b, "    %-5s  %s\n", label, ui.Visible(text))
}

func summary(r doctor.Report) string {
	text := fmt.Sprintf("%d ok", r.OK)
	for _, part := range []struct {
		n    int
		name string
	}{{r.Warn, "warn"}, {r.Fail, "fail"}, {r.Unknown, "unknown"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.name)
		}
	}
	return count(len(r.Results), "check") + ": " + text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
