//go:build linux

package runner

import (
	"fmt"
	"os"
)

// Orders are what a guard is told first of a command with these marks.
func Orders(marks []string, pgid int) string {
	return fmt.Sprintf("%s\ngroup %d\n", markOrder(marks), pgid)
}

// Guarded is a wrapper's end of a guard of a test's own.
type Guarded struct{ g *guard }

// NewGuarded orders a process through a pipe.
func NewGuarded(orders *os.File, process *os.Process) Guarded {
	return Guarded{&guard{orders: orders, process: process}}
}

func (g Guarded) Mark(marks []string)   { g.g.order("%s", markOrder(marks)) }
func (g Guarded) Watches(pgid int)      { g.g.watches(pgid) }
func (g Guarded) Trusted(until Instant) { g.g.trusted(until) }
func (g Guarded) Dismiss()              { g.g.dismiss() }

// Unsaid is how many orders the guard was not told yet.
func (g Guarded) Unsaid() int { return len(g.g.unsaid) }
