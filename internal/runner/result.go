package runner

import (
	"fmt"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Outcome says what became of a job.
type Outcome string

// The outcomes. Waiting and Running are on the way.
const (
	Waiting Outcome = "waiting"
	Running Outcome = "running"
	// Exited: the command ended by itself, by exit or by a signal.
	Exited Outcome = "exited"
	// NotAcquired: another holds the lock, or it was refused; nothing was run.
	NotAcquired Outcome = "not_acquired"
	// WaitTimeout: the wait ran out; nothing was run.
	WaitTimeout Outcome = "wait_timeout"
	// Lost: the lock went away, and the command was stopped.
	Lost Outcome = "lost"
	// Revoked: an operator took the lock away, and the command was stopped.
	Revoked Outcome = "revoked"
	// BackendDown: the lock could not be asked for, or not be renewed in time and
	// the command was stopped.
	BackendDown Outcome = "backend_down"
	// Interrupted: a signal ended the wait; nothing was run.
	Interrupted Outcome = "interrupted"
	// NotStarted: the command could not be executed.
	NotStarted Outcome = "not_started"
)

// Exit codes of a job's own outcomes. Config.ConflictExit stands for
// ExitNotAcquired.
const (
	ExitUsage         = 2 // what was asked for cannot be right: no conflict
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // and the number of the signal
	ExitNotAcquired   = 200
	ExitWaitTimeout   = 201
	ExitLost          = 202
	ExitRevoked       = 203
	ExitBackendDown   = 204
)

// Result is what a job came to.
type Result struct {
	Outcome Outcome
	// Exit is what the wrapper exits with.
	Exit int
	// Err says why, for every outcome but Exited.
	Err error

	Grant   lockstore.Grant
	Session lockstore.SessionID
	// Revocation is the audit row, when an operator took the lock away.
	Revocation *lockstore.Revocation

	// Begun, Granted, Started and Ended are by the wall clock, zero for what did
	// not happen.
	Begun, Granted, Started, Ended time.Time

	// PID is the command's own process; Child how it ended, nil while it runs.
	PID   int
	Child *ChildEnd
	// Killed tells that KILL was needed.
	Killed bool
	// Swept counts the processes that the command left behind and that were
	// stopped.
	Swept int
	// Survivors counts those that could not be stopped.
	Survivors int
	// Overlap is how long, at most, the command ran on after the lease could have
	// ended: what it wrote then, the fence refuses.
	Overlap time.Duration
	// Release says what became of the lock at the end.
	Release ReleaseOutcome
}

// ChildEnd is how a process ended.
type ChildEnd struct {
	Code   int
	Signal syscall.Signal // 0 when it exited by itself
}

// Exit is the code that a shell would show.
func (e ChildEnd) Exit() int {
	if e.Signal != 0 {
		return ExitSignal + int(e.Signal)
	}
	return e.Code & 0xff
}

// ReleaseOutcome is what became of the lock at the end.
type ReleaseOutcome string

// The outcomes of a release; "" when there was nothing to release.
const (
	Released ReleaseOutcome = "released"
	// Stale: it was not the job's any more.
	Stale ReleaseOutcome = "stale"
	// Unknown: no answer came; the lock ends with its lease at the latest.
	Unknown ReleaseOutcome = "unknown"
	// Kept: something of the command could not be stopped, so the lock is left to
	// its lease.
	Kept ReleaseOutcome = "kept"
)

// LostError is why a job's outcome is Lost.
type LostError struct {
	Key   string
	Token lockstore.Token
	// Why is a clause such as "its session has ended".
	Why string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock %q with token %s is lost: %s; the command was stopped", e.Key, e.Token, e.Why)
}

// RevokedError is why a job's outcome is Revoked.
type RevokedError struct{ Row lockstore.Revocation }

func (e *RevokedError) Error() string {
	return fmt.Sprintf("lock %q with token %s was revoked by %q: %s; the command was stopped", e.Row.Key, e.Row.PrevToken, e.Row.Operator, e.Row.Reason)
}

// DownError is why a job's outcome is BackendDown.
type DownError struct {
	Key string
	// Stopped tells that the command was running.
	Stopped bool
	Err     error
}

func (e *DownError) Error() string {
	if e.Stopped {
		return fmt.Sprintf("lock %q could not be renewed in time, and the command was stopped: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("lock %q could not be acquired: %v", e.Key, e.Err)
}

func (e *DownError) Unwrap() error { return e.Err }

// InterruptedError is why a job's outcome is Interrupted.
type InterruptedError struct {
	Key    string
	Signal syscall.Signal
}

func (e *InterruptedError) Error() string {
	word := map[syscall.Signal]string{syscall.SIGINT: "interrupted", syscall.SIGHUP: "hung up", syscall.SIGQUIT: "quit"}[e.Signal]
	if word == "" {
		word = "terminated"
	}
	return fmt.Sprintf("%s while waiting for lock %q; nothing was run, and nothing is held", word, e.Key)
}

// StartError is returned by Prepare, and is why a job's outcome is NotStarted:
// the command cannot be executed.
type StartError struct {
	Command string
	// Exit is 127 when there is none, 126 when it is there and cannot be run.
	Exit int
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("run %q: %v", e.Command, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }
