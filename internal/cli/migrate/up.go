package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Done is what up did to one database.
type Done struct {
	Target string `json:"target"`
	// Adopted tells that SyncGuard's tables stood there already, and were recorded.
	Adopted bool `json:"adopted,omitempty"`
	flyway.Result
}

func newUpCmd(a *app.App) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply what is pending",
		Long: "Apply every pending migration, each under Flyway's lock and in a transaction of its own where\n" +
			"the DDL allows. With both databases configured, each is told the identity of the other's\n" +
			"instance. An edited or half-done history is refused with exit 9, and nothing is run.\n\n" +
			"With an environment configured, each database is marked with it, once; one that is marked\n" +
			"otherwise is refused before anything is run. A protected profile needs --confirm.\n\n" +
			"With --target syncguard, tables that the library made are adopted: looked at, recorded as version\n" +
			"1 and left as they are. What is not as the library makes it is refused with the difference.",
		Example: "  dlockctl migrate up\n  dlockctl migrate up --target lockdb --lock-timeout 10s -o json",
		Args:    app.Args(),
		RunE:    a.RunWithin(upWithin, func(ctx context.Context, _ []string) error { return runUp(ctx, a, opts) }),
	}
	opts.targetFlag(cmd.Flags())
	opts.auditFlag(cmd.Flags())
	opts.lockFlag(cmd.Flags())
	app.ConfirmFlag(cmd.Flags())
	return cmd
}

func runUp(ctx context.Context, a *app.App, opts options) error {
	if err := opts.check(); err != nil {
		return err
	}
	found, err := targets(ctx, a, opts)
	if err != nil {
		return err
	}
	both, err := bothDatabases(a, found)
	if err != nil {
		return err
	}
	if err := guard(ctx, a, found, both); err != nil {
		return err
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	done, err := Up(ctx, a, found, both, opts.lockTimeout, cfg.Environment)
	if len(done) == 0 {
		return err
	}
	// What was done before an error is said as well.
	return errors.Join(Print(a, done), err)
}

// Up applies what is pending to each target, marks it with its environment when
// one is given, and records the peer identities when both databases are known. What it returns was done, also when an error
// follows.
func Up(ctx context.Context, a *app.App, found []Target, both *Both, lockTimeout time.Duration, environment string) ([]Done, error) {
	if err := both.separate(ctx, a); err != nil {
		return nil, err
	}
	var done []Done
	for _, t := range found {
		err := t.with(ctx, a, lockTimeout, func(m *flyway.Migrator) error {
			adopted, err := t.adopt(ctx, m)
			if err != nil {
				return err
			}
			result, err := m.Up(ctx)
			if err == nil || len(result.Applied) > 0 {
				done = append(done, Done{t.Name, adopted, result})
			}
			if err == nil && t.Name == targetSyncGuard {
				err = t.stand(ctx)
			}
			if t.Brief && len(result.Applied) > 0 {
				plural := "s"
				if len(result.Applied) == 1 {
					plural = ""
				}
				a.Progress(fmt.Sprintf("%s: applied %d migration%s, now at version %s", t.Name, len(result.Applied), plural, result.ToVersion))
			}
			return err
		})
		if err != nil {
			return done, err
		}
	}
	if err := mark(ctx, environment, found); err != nil {
		return done, err
	}
	return done, both.recordPeers(ctx, a)
}

// Print writes what Up did.
func Print(a *app.App, done []Done) error {
	type row struct {
		Target  string `json:"target"`
		From    string `json:"from_version"`
		To      string `json:"to_version"`
		Applied int    `json:"applied"`
	}
	rows := make([]row, len(done))
	for i, d := range done {
		rows[i] = row{d.Target, d.FromVersion, d.ToVersion, len(d.Applied)}
	}
	return a.Print(ui.View{
		Data: done, Rows: rows,
		Columns: []ui.Column{
			{Title: "TARGET", Field: "target"},
			{Title: "FROM", Field: "from_version", Kind: ui.Number},
			{Title: "TO", Field: "to_version", Kind: ui.Number},
			{Title: "APPLIED", Field: "applied", Kind: ui.Number},
		},
		Name: "target",
	})
}
