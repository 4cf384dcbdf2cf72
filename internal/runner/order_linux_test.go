package runner_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/runner"
)

// ordered is a guard that reads nothing, told of renewals until its pipe has no room.
type ordered struct {
	runner.Guarded

	pipe     *os.File
	renewals int
}

func newOrdered(t *testing.T, process *os.Process) *ordered {
	t.Helper()
	pipe, orders, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pipe.Close(), orders.Close() })
	o := &ordered{Guarded: runner.NewGuarded(orders, process), pipe: pipe}
	for o.Unsaid() == 0 {
		if o.renew(); o.renewals == 1<<20 {
			t.Fatal("its pipe takes everything, or it was given up")
		}
	}
	return o
}

func (o *ordered) renew() {
	o.renewals++
	o.Trusted(runner.Instant{Boot: time.Duration(o.renewals), Wall: time.Duration(o.renewals)})
}

func (o *ordered) newest() string { return fmt.Sprintf("until %d %d", o.renewals, o.renewals) }

// reads makes room in the pipe: a page of it.
func (o *ordered) reads(t *testing.T) {
	t.Helper()
	if _, err := io.ReadFull(o.pipe, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
}

// rest is what the guard reads to the end of its orders, as lines.
func (o *ordered) rest(t *testing.T) []string {
	t.Helper()
	text, err := io.ReadAll(o.pipe)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// A guard that does not read for a while is not given up, for it would take the end of
// its orders for the wrapper's and kill the command. It hears with the next order what
// it missed: the newest of each kind.
//
// Mutation: write with a deadline, and close orders when it has passed; or let no order
// replace an older one.
func TestGuardHearsWhatItMissed(t *testing.T) {
	t.Parallel()
	o := newOrdered(t, nil)
	last := fmt.Sprintf("until %d %d", o.renewals-1, o.renewals-1)
	o.Watches(7)
	o.renew()
	o.renew()
	if n := o.Unsaid(); n != 2 {
		t.Errorf("%d orders wait, want the group and the newest trust", n)
	}
	o.reads(t)
	o.Dismiss()
	lines := o.rest(t)
	if got, want := lines[len(lines)-4:], []string{last, "group 7", o.newest(), "done"}; !slices.Equal(got, want) {
		t.Errorf("it heard %q last, want %q", got, want)
	}
}

// A line that had room for its beginning alone is finished before all others.
//
// Mutation: say the line anew.
func TestGuardHearsWholeLines(t *testing.T) {
	t.Parallel()
	o := newOrdered(t, nil)
	o.reads(t)
	o.renew() // in the room that was made
	marks := []string{"DLOCK_KEY=" + strings.Repeat("k", 1<<16)}
	mark := strings.TrimSuffix(runner.Orders(marks, 7), "\ngroup 7\n")
	o.Mark(marks)
	o.renew()
	var heard strings.Builder
	for page := make([]byte, 4096); o.Unsaid() > 0; {
		if heard.Len() > 1<<20 {
			t.Fatal("it is never told all")
		}
		if _, err := io.ReadFull(o.pipe, page); err != nil {
			t.Fatal(err)
		}
		heard.Write(page)
		o.renew()
	}
	o.Dismiss()
	heard.WriteString(strings.Join(o.rest(t), "\n"))
	if lines := strings.Split(heard.String(), "\n"); !slices.Contains(lines, mark) || lines[len(lines)-2] != o.newest() {
		t.Errorf("it did not hear the mark as a whole, or not %q last of all", o.newest())
	}
}

// A guard that cannot be told to go is killed: it would kill whatever has the group's
// number by then. One that has gone is told nothing any more.
//
// Mutation: drop Kill from dismiss.
func TestGuardThatCannotBeToldIsKilled(t *testing.T) {
	t.Parallel()
	deaf := sleeper(t, nil)
	newOrdered(t, deaf.Process).Dismiss()
	_ = deaf.Process.Signal(syscall.SIGTERM) // where it was not killed
	if sig := endedBy(t, deaf); sig != syscall.SIGKILL {
		t.Errorf("ended by %s", sig)
	}
	gone := newOrdered(t, nil)
	_ = gone.pipe.Close()
	gone.renew()
	gone.Dismiss()
	gone.renew()
}
