package app

import (
	"fmt"
	"syscall"
	"time"
)

// Failure is an error that the command line itself decides: wrong usage, a
// guard's refusal, an outcome that is no success. What the stores return has
// its row in the error table instead.
type Failure struct { //nolint:errname // a verb ends in one as in a result; what the stores return is called Error
	Exit Exit
	// Code is the stable name for scripts, such as "not_held".
	Code string
	// Message says what is wrong, with the value; Hint what to do next.
	Message, Hint string
	// Details become the details of the JSON form; nil for none.
	Details any
	// Help is shown above the error where a person reads: the usage of a
	// command that was called without saying which.
	Help string
}

func (f *Failure) Error() string { return f.Message }

// UsageError refuses an argument or a configuration; nothing was sent.
func UsageError(hint, format string, args ...any) *Failure {
	return &Failure{Exit: Usage, Code: "usage", Message: fmt.Sprintf(format, args...), Hint: hint}
}

// WithHint adds to the hint of an error, whatever row of the table it has.
func WithHint(err error, hint string) error { return &hintedError{err, hint} }

type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// DeadlineError is the cause of a context whose command took longer than
// --timeout.
type DeadlineError struct{ After time.Duration }

func (e *DeadlineError) Error() string { return fmt.Sprintf("gave up after %s", e.After) }

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string {
	switch e.Signal {
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
	default:
		return "interrupted"
	}
}

// stoppedError is what was being done when the deadline or a signal came.
type stoppedError struct{ cause, doing error }

func (e *stoppedError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.doing) }

// Unwrap returns the cause alone: what broke off says nothing of its own.
func (e *stoppedError) Unwrap() error { return e.cause }

// FailureOf is what the error table says of an error, with another exit code: run's
// own failures stay clear of its command's codes.
func (a *App) FailureOf(err error, exit Exit) *Failure {
	problem := explain(err, a.embedded())
	return &Failure{Exit: exit, Code: problem.Code, Message: problem.Message, Hint: a.Runnable(problem.Hint), Details: problem.Details}
}

// ChildExit passes the exit code of a command on that was run: it has said itself
// what was to be said. Nil for 0.
func ChildExit(code int) error {
	if code == 0 {
		return nil
	}
	return &childError{Exit(code)}
}

type childError struct{ exit Exit }

func (e *childError) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", e.exit)
}
