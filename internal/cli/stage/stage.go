// Package stage gives a story two databases of its own, from nothing, and takes
// them away again. The demo and the drills play on it.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/dev"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/scenario"
)

// Within is the deadline of a verb that plays on a stage unless --timeout says
// otherwise: it may have to download PostgreSQL first.
const Within = 15 * time.Minute

// Options say what the stage is for.
type Options struct {
	// Name is the verb's, and part of the folder's name.
	Name string
	// Failover sets lockdb back by the promotion of a standby, not by a copy.
	Failover bool
	// Keep leaves the instances running when the play returns no error.
	Keep bool
}

// Run starts two instances in a folder of their own, applies schemas and seeds,
// plays, and removes everything again: also after an error, a signal and past
// the deadline.
func Run(ctx context.Context, a *app.App, opts Options, play func(context.Context, scenario.Cast) error) (err error) {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	// A reader that goes away must not take the process with it: two servers
	// would be left running. Writing then fails with EPIPE instead.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	clearLeftovers(ctx, a, cfg.StateDir)
	folder, err := makeFolder(cfg.StateDir, opts.Name)
	if err != nil {
		return err
	}
	lock, err := use(folder)
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	env, err := devenv.Open(devenv.Options{StateDir: folder, PGBin: cfg.PGBin, Env: a.Streams.Env, Progress: a.Progress})
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder), lock.Release())
	}
	defer func() {
		if opts.Keep && err == nil {
			err = lock.Remove() // it is left on purpose
			sayHowToReach(a, folder)
			return
		}
		err = errors.Join(err, remove(ctx, env, folder), lock.Release())
	}()
	if _, err := env.Up(ctx); err != nil {
		return err
	}
	if _, err := dev.Apply(ctx, a, env, true); err != nil {
		return err
	}
	return perform(ctx, env, opts, play)
}

func perform(ctx context.Context, env *devenv.Env, opts Options, play func(context.Context, scenario.Cast) error) error {
	both, err := dev.Databases(env)
	if err != nil {
		return err
	}
	lock, err := connect(ctx, "lockdb", both.Lock)
	if err != nil {
		return err
	}
	defer closeConn(ctx, lock)
	pay, err := connect(ctx, "paydb", both.Pay)
	if err != nil {
		return err
	}
	defer closeConn(ctx, pay)
	return play(ctx, cast{both, env, opts.Failover}.on(lock, pay))
}

func connect(ctx context.Context, name string, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: "connect to " + name, Err: err}
	}
	return conn, nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	_ = conn.Close(ctx) // nothing is under way on it
}

// makeFolder makes a folder, in parent or else among the temporary files, that the server's user may enter when the caller is
// root. What lies in it is closed to others. A parent that is not there is made, as dev up makes it, and stays.
func makeFolder(parent, name string) (folder string, err error) {
	if parent != "" {
		err = devenv.MakeFolder(parent)
	}
	if err == nil {
		folder, err = os.MkdirTemp(parent, prefix+name+"-")
	}
	if err != nil {
		return "", app.UsageError("give a folder that you may write to: --state-dir FOLDER, or TMPDIR", "make a folder for the %s: %v", name, err)
	}
	if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // G302: to be passed through, not read
		return "", errors.Join(fmt.Errorf("open the %s's folder: %w", name, err), os.RemoveAll(folder))
	}
	return folder, nil
}

// remove takes everything away, also after a signal or past the deadline.
func remove(ctx context.Context, env *devenv.Env, folder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := env.Destroy(ctx); err != nil {
		return fmt.Errorf("remove the databases in %s: %w", folder, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the folder of the databases: %w", err)
	}
	return nil
}

func sayHowToReach(a *app.App, folder string) {
	a.Note("The two instances are still running. To look around, and to remove them:")
	for _, command := range []string{"audit list", "lock list", "dev status", "dev destroy --yes"} {
		a.Note("  dlockctl --state-dir %s %s", folder, command)
	}
	a.Note("  rmdir %s", folder)
}
