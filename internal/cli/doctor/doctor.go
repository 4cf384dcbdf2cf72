// Package doctor holds the verb that looks at every precondition.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the doctor command.
func New(a *app.App) *cobra.Command {
	var exitCode bool
	var bundle string
	// Each command of a bundle has the deadline of its own, too.
	longer := func() time.Duration {
		if bundle == "" {
			return 0
		}
		return bundleTime
	}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at every precondition, and say how to put right what is not",
		Long: "Look at everything that the guarantees rest on, in both databases: guards, token sequence, gates,\n" +
			"roles, settings, clocks. It only reads; SELECT as dlock_auditor is enough. What fails comes first,\n" +
			"with what it means and the statement or command that puts it right, word for word. What could\n" +
			"not be read is unknown, never ok. docs/doctor.md lists the checks. With the backend syncguard it\n" +
			"looks at the library's tables instead.\n\n" +
			"Exit 8 when neither database could be read. With --exit-code, exit 7 when a check fails and 11\n" +
			"when none does and some are unknown.\n\n" +
			"--bundle runs this and eleven other commands that only read, and packs their answers.",
		Example: "  dlockctl doctor\n  dlockctl doctor --exit-code -o json\n  dlockctl doctor --bundle support.tar.gz",
		Args:    app.Args(),
		RunE: a.RunWaiting(longer, func(ctx context.Context, _ []string) error {
			switch {
			case bundle != "" && exitCode:
				return app.UsageError("leave one of them out", "--bundle collects and --exit-code judges: they cannot both be the answer")
			case bundle != "":
				return writeBundle(ctx, a, bundle)
			}
			return runDoctor(ctx, a, exitCode)
		}),
	}
	cmd.Flags().StringVar(&bundle, "bundle", "", "write everything that support would ask for into a new `FILE` (.tar.gz), without secrets")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 7 when a check fails, 11 when none does and some are unknown")
	return cmd
}

func runDoctor(ctx context.Context, a *app.App, exitCode bool) error {
	target, err := targetOf(a)
	if err != nil {
		return err
	}
	report, err := doctor.Run(ctx, target)
	runnable(a, report)
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
		return &app.Failure{Exit: app.Unreachable, Code: "unreachable", Message: "neither database could be read", Hint: unreachableHint(target)}
	case exitCode && report.Fail > 0:
		return &app.Failure{Exit: app.Findings, Code: "findings", Message: count(report.Fail, "check") + " failed", Hint: "run each fix, then dlockctl doctor again"}
	case exitCode && !report.Complete:
		return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: "nothing failed, and " + count(report.Unknown, "check") + " could not be made"}
	}
	return nil
}

// runnable has each fix name the databases that were looked at: without them it would
// be run on others.
func runnable(a *app.App, report doctor.Report) {
	for i, r := range report.Results {
		if r.Fix == nil {
			continue
		}
		fix := *r.Fix
		fix.Run, fix.Advice = a.Runnable(fix.Run), a.Runnable(fix.Advice)
		report.Results[i].Fix = &fix
	}
}

func unreachableHint(target doctor.Target) string {
	if target.SyncGuard != nil {
		return "the check syncguard_reachable says why"
	}
	if target.Etcd != nil {
		return "the checks etcd_reachable and paydb_reachable say why"
	}
	return "the checks lockdb_reachable and paydb_reachable say why"
}

// targetOf finds both databases. That one is not configured is a finding.
func targetOf(a *app.App) (doctor.Target, error) {
	cfg, err := a.Config()
	if err != nil {
		return doctor.Target{}, err
	}
	target := doctor.Target{
		AllowSameInstance: cfg.AllowSameInstance, MarkDir: cfg.MarkDir,
		Embedded: cfg.Embedded() && !cfg.Lock.Configured() && !cfg.Pay.Configured(),
	}
	switch cfg.Backend {
	case config.SyncGuard:
		return syncGuardTarget(a, cfg)
	case config.Etcd:
		target.Etcd, err = clusterOf(a, cfg)
	default:
		target.Lock, err = unlessMissing(a.LockdbConfig())
	}
	if err != nil {
		return doctor.Target{}, err
	}
	target.Services = services(cfg)
	target.Pay, err = unlessMissing(a.PayConfig())
	return target, err
}

// syncGuardTarget is the database with SyncGuard's tables; paydb knows nothing of it.
func syncGuardTarget(a *app.App, cfg *config.Config) (doctor.Target, error) {
	conn, err := unlessMissing(a.LockConfig())
	names := tables.Names{Lock: cfg.SyncGuard.LockTable, Fence: cfg.SyncGuard.FenceTable}
	return doctor.Target{SyncGuard: &doctor.SyncGuardTarget{Config: conn, Names: names}}, err
}

// clusterOf is the etcd cluster that keeps the locks.
func clusterOf(a *app.App, cfg *config.Config) (*doctor.Cluster, error) {
	opts, err := a.EtcdOptions()
	if err != nil {
		return nil, err
	}
	return &doctor.Cluster{
		Endpoints: cfg.Etcd.Endpoints, Certificate: cfg.Etcd.CertFile != "",
		Read: func(ctx context.Context) (etcd.Health, error) { return etcd.ReadHealth(ctx, opts) },
	}, nil
}

// services are those that the configuration names.
func services(cfg *config.Config) []doctor.Service {
	var found []doctor.Service
	for _, s := range []struct{ name, key, url string }{
		{"lock-server", "services.lock_url", cfg.Services.LockURL},
		{"payment-resource", "services.pay_url", cfg.Services.PayURL},
		{"rail-proxy", "services.rail_url", cfg.Services.RailURL},
	} {
		if s.url == "" || cfg.Origin(s.key).Layer == config.Default {
			continue // where they would be on this machine is no word that they are
		}
		shown := cfg.Services.Credential
		opts := client.Options{
			URL: s.url, KeyFile: shown.KeyFile, CAFile: shown.CAFile, CertFile: shown.CertFile, CertKeyFile: shown.CertKeyFile, Timeout: serviceTime,
		}
		found = append(found, doctor.Service{Name: s.name, Ask: func(ctx context.Context) (httpd.Health, error) { return client.Health(ctx, opts) }})
	}
	return found
}

// serviceTime is how long a service has to say how it is.
const serviceTime = 5 * time.Second

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
