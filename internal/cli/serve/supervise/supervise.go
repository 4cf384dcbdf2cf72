package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Child is a process that is kept running.
type Child struct {
	Name string
	// Args returns the arguments, without the program's name, each time it starts:
	// where the children before it listen is known by then. again is where it
	// listened the last time, "" at first: it listens there again.
	Args func(again string) []string
	Env  []string
}

// Supervisor keeps children running.
type Supervisor struct {
	// Program is the path of the program, Name what it is called in its own
	// arguments, and so in ps; Err is where its children's lines go.
	Program, Name string
	Err           io.Writer
	// Grace is how long a child has to end after SIGTERM, before it is killed.
	Grace time.Duration
	// Hide tells which lines of the children are left out; nil for none.
	Hide func(line []byte) bool
	// Final tells which exit codes say that starting again would not help.
	Final func(exit int) bool

	mu  sync.Mutex // guards Err
	out sync.Mutex // guards addresses
	// addresses are where the children listen, by name.
	addresses map[string]string
}

// The bounds of the pause before a child is started again; one that ran for settled
// begins anew with the shortest.
const (
	shortest = 250 * time.Millisecond
	longest  = 15 * time.Second
	settled  = 30 * time.Second
)

// FinalError is returned for a child that ended in a way that starting it again does
// not help. It has said why itself.
type FinalError struct {
	Name string
	Exit int
}

func (e *FinalError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d, and would again; its last line says why", e.Name, e.Exit)
}

// Run starts the children one after the other, each when the one before it listens,
// tells ready that all of them do, and keeps them running until the context ends or
// one ends for good (*FinalError). Then it ends them, the last one first.
func (s *Supervisor) Run(ctx context.Context, children []Child, ready func(ctx context.Context)) error {
	s.addresses = map[string]string{}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var kept []*keeper
	for _, child := range children {
		k := &keeper{of: s, child: child, end: make(chan struct{}), ended: make(chan struct{}), listening: make(chan struct{})}
		kept = append(kept, k)
		go k.keep(context.WithoutCancel(ctx), stop)
		select {
		case <-k.listening:
		case <-working.Done():
		}
		if working.Err() != nil {
			break
		}
	}
	if working.Err() == nil {
		ready(working)
	}
	<-working.Done()
	for _, k := range slices.Backward(kept) {
		close(k.end)
		<-k.ended
	}
	if final, ok := errors.AsType[*FinalError](context.Cause(working)); ok {
		return final
	}
	return nil
}

// Address is where a child listens, "" before it does.
func (s *Supervisor) Address(name string) string {
	s.out.Lock()
	defer s.out.Unlock()
	return s.addresses[name]
}

// say writes a line of the supervisor's own.
func (s *Supervisor) say(name, format string, args ...any) {
	s.line(name, []byte(fmt.Sprintf(format, args...)+"\n"))
}

// line writes a line of a child, marked with its name, whole.
func (s *Supervisor) line(name string, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.Err, "%-16s | %s", name, line) // nobody is left to tell when stderr is gone
}

// keeper keeps one child running.
type keeper struct {
	of    *Supervisor
	child Child
	// end asks for its end; ended says that it has.
	end, ended chan struct{}
	listening  chan struct{}
	heard      sync.Once
}

// keep starts the child again and again, until it is asked to end it.
func (k *keeper) keep(ctx context.Context, stop context.CancelCauseFunc) {
	defer close(k.ended)
	pause := shortest
	for {
		began := time.Now()
		exit, asked, err := k.once(ctx)
		switch {
		case asked:
			return
		case err != nil:
			k.of.say(k.child.Name, "cannot be started: %v", err)
		case k.of.Final(exit):
			stop(&FinalError{k.child.Name, exit})
			return
		default:
			k.of.say(k.child.Name, "ended with exit code %d", exit)
		}
		if time.Since(began) > settled {
			pause = shortest
		}
		jittered := pause/2 + rand.N(pause) //nolint:gosec // G404: only to spread the starts
		k.of.say(k.child.Name, "is started again in %s", jittered.Round(time.Millisecond))
		select {
		case <-time.After(jittered):
		case <-k.end:
			return
		}
		pause = min(2*pause, longest)
	}
}

// once runs the child until it ends, or is asked to.
func (k *keeper) once(ctx context.Context) (exit int, asked bool, err error) {
	command := exec.CommandContext(ctx, k.of.Program, k.child.Args(k.of.Address(k.child.Name))...)
	command.Args[0] = k.of.Name
	command.Env = k.child.Env
	lines := &lines{each: k.hear}
	command.Stdout, command.Stderr = lines, lines
	// Nothing of a child of its own may hold its output open for ever; on a busy machine
	// its last lines take a while.
	command.WaitDelay = 5 * time.Second
	apart(command)
	ended := make(chan error, 1)
	if err := start(command, ended); err != nil {
		return 0, false, err
	}
	select {
	case err = <-ended:
	case <-k.end:
		asked = true
		err = k.finish(command, ended)
	}
	lines.rest()
	return code(err), asked, nil
}

// finish asks the child to end, and kills it when it does not.
func (k *keeper) finish(command *exec.Cmd, ended <-chan error) error {
	if terminate(command) == nil {
		select {
		case err := <-ended:
			return err
		case <-time.After(k.of.Grace):
			k.of.say(k.child.Name, "did not end within %s, and is killed", k.of.Grace)
		}
	}
	_ = command.Process.Kill() // it has ended otherwise
	return <-ended
}

// code is the exit code of an ended process, -1 for one that a signal ended.
func code(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

// hear hands a line on, and learns from it where the child listens.
func (k *keeper) hear(line []byte) {
	if address := listeningAt(line); address != "" {
		k.of.out.Lock()
		k.of.addresses[k.child.Name] = address
		k.of.out.Unlock()
		k.heard.Do(func() { close(k.listening) })
	}
	if k.of.Hide == nil || !k.of.Hide(line) {
		k.of.line(k.child.Name, line)
	}
}
