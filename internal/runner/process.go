package runner

import (
	"os"
	"syscall"
)

// spec is what is needed to start a command.
type spec struct {
	path  string
	argv  []string
	env   []string
	files [3]*os.File // nil is the null device
	guard GuardCommand
	// marks are what of env tells the command's processes from all others, to the guard.
	marks []string
	inbox *inbox
}

// process is a command that was started: a process with all that it starts.
type process interface {
	id() int
	// changes tells of each stop and continuation of the main process, and last of
	// its end. The process number stays its own until end is called.
	changes() <-chan change
	// forward sends a signal to the process group.
	forward(sig syscall.Signal)
	// terminate asks all that belongs to it to end, stopped processes too; kill
	// leaves it no choice.
	terminate()
	kill()
	// others counts what is left of it beside the main process.
	others() int
	// suspend follows the main process into a stop that came from the terminal,
	// and tells whether it did; resume is called to go on.
	suspend(sig syscall.Signal) bool
	resume()
	// trusted tells the guard until when the lock is held.
	trusted(until Instant)
	// end is how the main process ended, once changes has told that it did.
	end() ChildEnd
	close()
}

// change is news of the main process.
type change struct {
	kind changeKind
	sig  syscall.Signal // of a stop
}

type changeKind int

const (
	stopped changeKind = iota
	continued
	ended
)
