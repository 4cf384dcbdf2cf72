// Package run holds the verb that runs a command under a lock.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/runner"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	autoSession = "auto"
	defaultTTL  = 30 * time.Second
	// most is the highest exit code that a process has.
	most = 255
)

type options struct {
	key, owner   string
	command      []string
	ttl, wait    time.Duration
	grace        time.Duration
	graceGiven   bool
	statusFile   string
	conflictExit int
	guard        bool
}

// New returns the run command.
func New(a *app.App) *cobra.Command {
	opts := options{conflictExit: runner.ExitNotAcquired}
	cmd := &cobra.Command{
		Use:        "run KEY [flags] -- COMMAND [ARG…]",
		SuggestFor: []string{"exec", "with", "lock-and-run"},
		Short:      "Run a command under a lock",
		Long: "Take a lock, run a command, and give the lock back when nothing of the command is left running.\n" +
			"The lease is renewed at a third of it. If it cannot be, or the lock is revoked, the command's whole\n" +
			"process group gets TERM, and after --grace KILL, before the lease can be another's.\n\n" +
			"The command gets the streams and the signals of this process, and DLOCK_KEY, DLOCK_TOKEN,\n" +
			"DLOCK_SESSION and DLOCK_EXPIRES: it passes the token on with every write that the lock protects.\n" +
			"No shell reads it. What stands after -- is its own, flags too.\n\n" +
			"The exit code is the command's, 128+n when signal n ended it, 126 or 127 when it cannot be run; or\n" +
			"200 not acquired · 201 the wait ran out · 202 lock lost and command stopped · 203 revoked ·\n" +
			"204 database down · 128+n a signal ended the wait. --timeout bounds what comes before the command, on\n" +
			"top of --wait, and never the command. See docs/run.md for what each system guarantees.",
		Example: "  dlockctl run account:42 -- sh -c 'echo \"settling under token $DLOCK_TOKEN\"'\n" +
			"  dlockctl run account:42 --wait 1m --ttl 2m --grace 20s -- sleep 1\n" +
			"  dlockctl run nightly --conflict-exit-code 0 --status-file status.json -- echo done",
		Args: opts.args,
	}
	job := a.RunWaiting(func() time.Duration { return opts.wait }, func(ctx context.Context, _ []string) error {
		return run(ctx, a, opts)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.guard {
			runner.Guard(a.Streams.In, runner.NewClock())
			return nil
		}
		opts.graceGiven = cmd.Flags().Changed("grace")
		return job(cmd, args)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return app.WithHint(cmd.Root().FlagErrorFunc()(cmd, err), "the command's own flags go after --: dlockctl run KEY -- COMMAND")
	})
	flags := cmd.Flags()
	flags.StringVar(&opts.owner, "owner", "", "who holds the lock (default user@host)")
	flags.String("session", autoSession, "session to hold it under: an id, or auto for a fresh one") // read through the configuration
	flags.DurationVar(&opts.ttl, "ttl", defaultTTL, "lease, 100ms to 24h")
	flags.DurationVar(&opts.wait, "wait", 0, "wait so long for it to become free")
	flags.DurationVar(&opts.grace, "grace", 0, "time between TERM and KILL, at most a third of the ttl (default a sixth of it, at most 10s)")
	flags.StringVar(&opts.statusFile, "status-file", "", "`FILE` that says in JSON what became of it")
	app.WholeVar(flags, &opts.conflictExit, "conflict-exit-code", opts.conflictExit, "exit code in place of 200")
	// The process that kills the command when this one cannot: see runner.Guard.
	flags.BoolVar(&opts.guard, "guard", false, "watch over another run (called by run itself)")
	_ = flags.MarkHidden("guard") // it is there
	return cmd
}

// args wants KEY, then --, then the command.
func (o *options) args(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	const form = "dlockctl run KEY -- COMMAND [ARG…]"
	switch {
	case o.guard:
		return nil
	case dash < 0 && len(args) > 1:
		return app.UsageError("put -- before the command: "+form, "dlockctl run: %q follows KEY without --", args[1])
	case dash == 0 || len(args) == 0:
		return app.UsageError(form, "dlockctl run needs KEY")
	case dash > 1:
		return app.UsageError(form, "dlockctl run takes one KEY before --, not also %q", args[1])
	case len(args) == 1:
		return app.UsageError(form, "dlockctl run needs a command after --")
	}
	o.key, o.command = args[0], args[1:]
	return nil
}

func run(ctx context.Context, a *app.App, opts options) error {
	cfg, err := config(a, opts)
	if err != nil {
		return err
	}
	status := statusFile{path: opts.statusFile, ttl: cfg.TTL, key: cfg.Key, owner: cfg.Owner}
	if err := status.check(); err != nil {
		return err
	}
	job, err := runner.Prepare(cfg.with(a, &status))
	if start, isStart := errors.AsType[*runner.StartError](err); isStart {
		return finish(a, &status, runner.Result{Outcome: runner.NotStarted, Exit: start.Exit, Err: err})
	}
	if err != nil {
		return err
	}
	if err := a.HasLocks(); err != nil {
		return err // without an address nothing is asked for
	}
	// The job takes the signals in by itself, and the deadline is not the command's.
	a.Endless()
	result := job.Run(context.WithoutCancel(ctx), func(ctx context.Context) (runner.Holder, error) {
		store, err := a.LockStore(ctx, app.Granting)
		if failure, told := errors.AsType[*app.Failure](err); told && failure.Exit == app.Usage {
			return nil, usageError{err}
		}
		if err != nil {
			return nil, err
		}
		return runner.OnStore(store), nil
	})
	return finish(a, &status, result)
}

// usageError is what can never be right, so that nobody takes it for a lock that another
// holds: --conflict-exit-code 0 would hide it for ever.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Is makes it an invalid argument to the runner.
func (usageError) Is(target error) bool { return target == lockstore.ErrInvalid }

// jobConfig is a job's configuration on the way.
type jobConfig struct{ runner.Config }

func config(a *app.App, opts options) (jobConfig, error) {
	settings, err := a.Config()
	if err != nil {
		return jobConfig{}, err
	}
	if opts.owner == "" {
		if opts.owner, err = app.UserAtHost(); err != nil {
			return jobConfig{}, app.UsageError("say who holds the lock: --owner NAME", "%v", err)
		}
	}
	if opts.conflictExit < 0 || opts.conflictExit > most {
		return jobConfig{}, app.UsageError("give 0 to 255", "--conflict-exit-code %d is no exit code", opts.conflictExit)
	}
	session, err := a.Session()
	if err != nil {
		return jobConfig{}, err
	}
	if session == autoSession {
		session = ""
	}
	if !opts.graceGiven {
		opts.grace = runner.DefaultGrace(opts.ttl)
	}
	return jobConfig{runner.Config{
		Key: opts.key, Owner: opts.owner, Session: session, TTL: opts.ttl, Grace: opts.grace, Wait: opts.wait,
		Timeout: settings.Timeout, Command: opts.command, ConflictExit: opts.conflictExit,
	}}, nil
}

// with adds the ends of the process: the command gets them as they are.
func (c jobConfig) with(a *app.App, status *statusFile) runner.Config {
	c.Env = os.Environ()
	c.Stdin, _ = a.Streams.In.(*os.File)
	c.Stdout, _ = a.Streams.Out.(*os.File)
	c.Stderr, _ = a.Streams.Err.(*os.File)
	if self, err := os.Executable(); err == nil {
		c.Guard = runner.GuardCommand{Path: self, Args: []string{os.Args[0], "run", "--guard"}}
	}
	c.Clock, c.Note, c.Warn = runner.NewClock(), a.Aside, a.Warn
	c.OnHeld = func(held *lockstore.HeldError) {
		left := ui.Left(held.Remaining) + ", unless it is renewed"
		if held.ExpiresAt.Infinite {
			left = "which never expires"
		}
		a.Aside("waiting for lock %q: %s, %s", held.Key, held.By(), left)
	}
	c.OnMove = func(result runner.Result) {
		if err := status.write(result); err != nil {
			a.Warn("%v", err)
		}
	}
	return c.Config
}

// finish says what came in the command's way, if anything did, and passes its
// exit code on.
func finish(a *app.App, status *statusFile, result runner.Result) error {
	if result.Ended.IsZero() { // nothing was begun
		if err := status.write(result); err != nil {
			a.Warn("%v", err)
		}
	}
	if result.Outcome == runner.Exited {
		return app.ChildExit(result.Exit)
	}
	failure := a.FailureOf(result.Err, app.Exit(result.Exit))
	switch result.Outcome {
	case runner.Lost:
		failure.Code, failure.Hint = "run_lost", fmt.Sprintf("what it still wrote, the fence refuses from the next grant on: dlockctl token explain %s", result.Grant.Token)
	case runner.Revoked:
		failure.Code, failure.Hint = "run_revoked", fmt.Sprintf("dlockctl audit show %d", result.Revocation.ID)
	case runner.BackendDown:
		failure.Code = "run_backend_down"
	case runner.NotStarted:
		failure.Code = "command_not_executable"
		if result.Exit == runner.ExitNotFound {
			failure.Code = "command_not_found"
		}
	case runner.Interrupted:
		failure.Code = "terminated"
		if result.Exit == int(app.Interrupted) {
			failure.Code = "interrupted"
		}
	default:
	}
	return failure
}
