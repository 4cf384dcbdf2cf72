package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// deadline ends a command's context after a time that stands still while a
// question is put to a person.
type deadline struct {
	timer *time.Timer
	after time.Duration
	// ends is when the timer fires.
	ends time.Time
}

func newDeadline(after time.Duration, end func()) *deadline {
	return &deadline{timer: time.AfterFunc(after, end), after: after, ends: time.Now().Add(after)}
}

// pause stops the clock, and returns what starts it again with the time that
// was left.
func (d *deadline) pause() (resume func()) {
	d.timer.Stop()
	left := time.Until(d.ends)
	return func() {
		d.ends = time.Now().Add(left)
		d.timer.Reset(left)
	}
}

// Run makes a command's RunE: it reads the configuration, gives the context
// the command's deadline, and turns what was broken off by it, or by a signal,
// into an error that says so.
func (a *App) Run(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.RunWithin(0, run)
}

// RunWithin is Run for a command that takes longer by nature: within is its
// deadline unless the caller gave one.
func (a *App) RunWithin(within time.Duration, run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.start(within, func() time.Duration { return 0 }, run)
}

// RunWaiting is Run for a command that waits by the caller's own wish: the
// deadline counts on top of that.
func (a *App) RunWaiting(wait func() time.Duration, run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.start(0, wait, run)
}

func (a *App) start(within time.Duration, wait func() time.Duration, run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := a.Config()
		if err != nil {
			return err
		}
		if _, err := a.printer(cfg); err != nil {
			return err
		}
		after := cfg.Timeout
		if within > 0 && cfg.Origin("timeout").Layer == config.Default {
			after = within
		}
		after = onTop(after, wait())
		ctx, cancel := context.WithCancelCause(cmd.Context())
		a.deadline = newDeadline(after, func() { cancel(&DeadlineError{After: after}) })
		defer func() {
			a.deadline.timer.Stop()
			cancel(nil)
		}()
		return stopped(ctx, run(ctx, args))
	}
}

// onTop adds a wait to a deadline; one without end does not overflow.
func onTop(after, wait time.Duration) time.Duration {
	if wait > math.MaxInt64-after {
		return math.MaxInt64
	}
	return after + max(wait, 0)
}

// Endless takes the deadline off a command that goes on until it is stopped,
// once its store is open. Each of its looks has the deadline to itself: see
// Look.
func (a *App) Endless() { a.deadline.timer.Stop() }

// Look gives one look of an endless command the deadline of a whole command, so
// that a black-holed host ends in an error here too.
func (a *App) Look(ctx context.Context) (context.Context, context.CancelFunc) {
	after := a.deadline.after
	return context.WithTimeoutCause(ctx, after, &DeadlineError{After: after})
}

// Late makes what broke off at the end of a look the deadline's error.
func Late(look context.Context, err error) error { return stopped(look, err) }

// stopped says what stopped the command, where that is why it failed. An
// unknown outcome stays one: that it may have been done matters more than who
// cut it off.
func stopped(ctx context.Context, err error) error {
	cause := Stopped(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	var unknown *lockstore.UnknownOutcomeError
	var unsettled *flyway.UnknownOutcomeError
	var unposted *paystore.UnknownOutcomeError
	var migration *flyway.MigrationError
	var unanswered *owner.UnknownOutcomeError
	var cutOff *restore.CutOffError
	var unreachable *lockstore.UnreachableError
	var unreachablePay *paystore.UnreachableError
	var unreachableOwner *owner.UnreachableError
	switch {
	case errors.As(err, &unknown), errors.As(err, &unsettled), errors.As(err, &unposted), errors.As(err, &migration) && migration.Dirty,
		errors.As(err, &unanswered), errors.As(err, &cutOff):
		return fmt.Errorf("%w: %w", cause, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &unreachable), errors.As(err, &unreachablePay),
		errors.As(err, &unreachableOwner):
		return &stoppedError{cause, err}
	}
	return err
}

// Stopped returns the signal or the deadline that ended the context, or nil.
func Stopped(ctx context.Context) error {
	var deadline *DeadlineError
	var signal *SignalError
	if cause := context.Cause(ctx); errors.As(cause, &deadline) || errors.As(cause, &signal) {
		return cause
	}
	return nil
}

// BySignal tells that a signal ended the context: nobody waits for the answer
// any more.
func BySignal(ctx context.Context) bool {
	var signal *SignalError
	return errors.As(context.Cause(ctx), &signal)
}

// CanAsk refuses, naming the flags that say yes, when a confirmation is still
// to be asked for and there is nobody to ask.
func (a *App) CanAsk(yes bool, flags string) error {
	if yes || a.Streams.Interactive() {
		return nil
	}
	return nobodyToAsk(flags)
}

func nobodyToAsk(flags string) error {
	return &Failure{Exit: Refused, Code: "not_confirmed", Message: "this needs a confirmation, and there is no terminal to ask on", Hint: "say yes by a flag: " + flags}
}

// Confirm asks the person at the terminal, while the command's deadline stands
// still. It refuses with a Failure when the answer is no, and, naming the
// flags that say yes, when there is nobody to ask.
func (a *App) Confirm(ctx context.Context, question, flags string) error {
	if a.deadline != nil {
		defer a.deadline.pause()()
	}
	yes, err := a.Streams.Confirm(ctx, question)
	switch {
	case errors.Is(err, ui.ErrNoTerminal):
		return nobodyToAsk(flags)
	case err != nil:
		return err
	case !yes:
		return &Failure{Exit: Refused, Code: "not_confirmed", Message: "not confirmed; nothing was changed"}
	}
	return nil
}
