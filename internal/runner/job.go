package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Config is a command to be run under a lock.
type Config struct {
	Key, Owner string
	// Session is the session to hold the lock under; "" makes one, and ends it.
	Session lockstore.SessionID
	// TTL is the lease, renewed at a third of it; Grace the command's time between
	// TERM and KILL, at most MaxGrace.
	TTL, Grace time.Duration
	// Wait is how long to wait for the lock; 0 tries once.
	Wait time.Duration
	// Timeout bounds what is asked of the lock service before the command runs, on
	// top of Wait.
	Timeout time.Duration

	// Command is the program and its arguments; Env its environment but for the
	// lock's own variables.
	Command []string
	Env     []string
	// The command's ends are handed on as they are; nil is the null device.
	Stdin, Stdout, Stderr *os.File
	// ConflictExit is the exit code of NotAcquired, ExitNotAcquired as a rule.
	ConflictExit int
	// Guard is how to call Guard in a process of its own.
	Guard GuardCommand

	// Clock is the machine's own; a test brings another.
	Clock Clock
	// Note and Warn say something to the person at the terminal.
	Note, Warn func(format string, args ...any)
	// OnHeld, when set, is told who holds the lock while waiting for it.
	OnHeld func(*lockstore.HeldError)
	// OnMove, when set, is called when the outcome has moved on.
	OnMove func(Result)
}

// GuardCommand is a program and its arguments, its own name first; the zero value
// is no guard.
type GuardCommand struct {
	Path string
	Args []string
}

// Job is a command that can be run, as far as can be known before.
type Job struct {
	cfg  Config
	path string
}

// Prepare checks a configuration and looks the command up, before anything is
// sent. It returns an error that wraps lockstore.ErrInvalid, or *StartError.
func Prepare(cfg Config) (*Job, error) {
	if err := errors.Join(lockstore.ValidKey(cfg.Key), lockstore.ValidOwner(cfg.Owner), lockstore.ValidTTL(cfg.TTL)); err != nil {
		return nil, err
	}
	if cfg.Session != "" {
		if err := lockstore.ValidSessionID(cfg.Session); err != nil {
			return nil, err
		}
	}
	switch {
	case cfg.Grace < 0:
		return nil, fmt.Errorf("%w: grace %s is negative", lockstore.ErrInvalid, cfg.Grace)
	case cfg.Grace > MaxGrace(cfg.TTL):
		return nil, fmt.Errorf("%w: grace %s is above a third of the ttl %s, which leaves no time to renew; give at most %s, or a longer ttl",
			lockstore.ErrInvalid, cfg.Grace, cfg.TTL, MaxGrace(cfg.TTL))
	case cfg.Wait < 0:
		return nil, fmt.Errorf("%w: wait %s is negative", lockstore.ErrInvalid, cfg.Wait)
	case len(cfg.Command) == 0:
		return nil, fmt.Errorf("%w: there is no command to run", lockstore.ErrInvalid)
	}
	path, err := find(cfg.Command[0], cfg.Env)
	if err != nil {
		return nil, err
	}
	return &Job{cfg, path}, nil
}

// Open reaches the lock service. It is called once; its context ends with the
// wait.
type Open func(ctx context.Context) (Holder, error)

// Run acquires the lock, runs the command under it, and gives the lock back. The
// end of ctx stops the command as a lost lock does; signals are the job's own
// business, from the beginning: a caller that turns them into the end of a
// context must not hand that context in.
func (j *Job) Run(ctx context.Context, open Open) Result {
	inbox := newInbox()
	defer inbox.close()
	r := &run{Job: j, open: open, inbox: inbox, start: start}
	return r.all(ctx)
}

// run is one run of a job.
type run struct {
	*Job

	open   Open
	holder Holder
	inbox  *inbox
	// start starts the command; a test's own instead.
	start  func(spec) (process, error)
	result Result
	trust  trust
	// own tells that the session was made here.
	own bool
}

func (r *run) all(ctx context.Context) Result {
	r.result = Result{Outcome: Waiting, Begun: time.Now()}
	r.moved()
	if err := r.acquire(ctx); err != nil {
		r.refused(ctx, err)
	} else {
		r.result.Granted = time.Now()
		r.command(ctx)
		r.release(ctx)
	}
	r.result.Ended = time.Now()
	r.moved()
	return r.result
}

func (r *run) moved() {
	if r.cfg.OnMove != nil {
		r.cfg.OnMove(r.result)
	}
}

// command starts the command and sees it to its end.
func (r *run) command(ctx context.Context) {
	child, err := r.start(spec{
		path: r.path, argv: r.cfg.Command, env: r.environment(),
		files: [3]*os.File{r.cfg.Stdin, r.cfg.Stdout, r.cfg.Stderr}, guard: r.cfg.Guard, marks: r.variables(), inbox: r.inbox,
	})
	if err != nil {
		r.end(NotStarted, ExitNotExecutable, err)
		if failed, isStart := errors.AsType[*StartError](err); isStart {
			r.result.Exit = failed.Exit
		}
		return
	}
	defer child.close()
	r.result.Outcome, r.result.Started, r.result.PID = Running, time.Now(), child.id()
	r.moved()
	supervise(ctx, r, child)
}

// environment is the caller's own, and what tells the command of its lock: the
// innermost when nested.
func (r *run) environment() []string {
	return append(without(r.cfg.Env, "DLOCK_KEY", "DLOCK_TOKEN", "DLOCK_SESSION", "DLOCK_EXPIRES"), r.variables()...)
}

// variables tell the command of its lock. Together they are of one grant: a session may
// have many, or there may be none.
func (r *run) variables() []string {
	g := r.result.Grant
	return []string{
		"DLOCK_KEY=" + g.Key, "DLOCK_TOKEN=" + g.Token.String(), "DLOCK_SESSION=" + string(r.result.Session),
		"DLOCK_EXPIRES=" + g.ExpiresAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}

func (r *run) end(outcome Outcome, exit int, err error) {
	r.result.Outcome, r.result.Exit, r.result.Err = outcome, exit, err
}
