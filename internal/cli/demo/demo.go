// Package demo holds the verb that plays the whole story on two databases of
// its own, from nothing, and takes them away again.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/dev"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// within is the demo's deadline unless --timeout says otherwise: it may have to
// download PostgreSQL first.
const within = 15 * time.Minute

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
			"Every outcome is read back from the databases; one that is not what it must be ends in exit 1.\n" +
			"Everything is removed again, unless --keep.",
		Example: "  dlockctl demo\n  dlockctl demo -o json\n  dlockctl demo --keep",
		Args:    app.Args(),
		RunE:    a.RunWithin(within, func(ctx context.Context, _ []string) error { return runDemo(ctx, a, keep) }),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the two instances running, and say how to reach them")
	cmd.Flags().String("pg-bin", "", "folder of the PostgreSQL programs (default: search)") // read through the configuration
	return cmd
}

func runDemo(ctx context.Context, a *app.App, keep bool) (err error) {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	// A reader that goes away must not take the process with it: two servers
	// would be left running. Writing then fails with EPIPE instead.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	folder, err := makeFolder(cfg.StateDir)
	if err != nil {
		return err
	}
	env, err := devenv.Open(devenv.Options{StateDir: folder, PGBin: cfg.PGBin, Env: a.Streams.Env, Progress: a.Progress})
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	defer func() {
		if keep && err == nil {
			sayHowToReach(a, folder)
			return
		}
		err = errors.Join(err, remove(ctx, env, folder))
	}()
	if _, err := env.Up(ctx); err != nil {
		return err
	}
	both, err := dev.Databases(env)
	if err != nil {
		return err
	}
	if _, err := dev.Apply(ctx, a, env, true); err != nil {
		return err
	}
	lock, err := pgx.ConnectConfig(ctx, both.Lock)
	if err != nil {
		return &lockstore.UnreachableError{Doing: "connect to lockdb", Err: err}
	}
	defer closeConn(ctx, lock)
	pay, err := pgx.ConnectConfig(ctx, both.Pay)
	if err != nil {
		return &lockstore.UnreachableError{Doing: "connect to paydb", Err: err}
	}
	defer closeConn(ctx, pay)
	openPay := func(ctx context.Context) (*paystore.DB, error) {
		return paystore.Open(ctx, paystore.Options{
			Config: both.Pay, PeerConfig: both.Lock, Environment: config.DevEnvironment, Purpose: paystore.Changing, MaxConns: 1,
		})
	}
	return tell(ctx, a, scenario.Cast{
		Lock: lock, Pay: pay, Owner: pay, OpenPosting: openPay, OpenRail: openPay,
		Open: func(ctx context.Context) (lockstore.Store, error) {
			return postgres.Open(ctx, postgres.Options{
				Config: both.Lock, PeerConfig: both.Pay, Environment: config.DevEnvironment, Purpose: postgres.Granting, MaxConns: 1,
			})
		},
	})
}

// makeFolder makes a folder, in parent or else among the temporary files, that the server's user may enter when the caller is
// root. What lies in it is closed to others.
func makeFolder(parent string) (string, error) {
	folder, err := os.MkdirTemp(parent, "dlockctl-demo-")
	if err != nil {
		return "", app.UsageError("give a folder that you may write to: --state-dir FOLDER, or TMPDIR", "make a folder for the demo: %v", err)
	}
	if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // G302: to be passed through, not read
		return "", errors.Join(fmt.Errorf("open the demo's folder: %w", err), os.RemoveAll(folder))
	}
	return folder, nil
}

// remove takes everything away, also after a signal or past the deadline.
func remove(ctx context.Context, env *devenv.Env, folder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := env.Destroy(ctx); err != nil {
		return fmt.Errorf("remove the demo's databases in %s: %w", folder, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the demo's folder: %w", err)
	}
	return nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	_ = conn.Close(ctx) // nothing is under way on it
}

func sayHowToReach(a *app.App, folder string) {
	a.Note("The two instances are still running. To look around, and to remove them:")
	for _, command := range []string{"audit list", "lock list", "dev status", "dev destroy --yes"} {
		a.Note("  dlockctl --state-dir %s %s", folder, command)
	}
	a.Note("  rmdir %s", folder)
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
