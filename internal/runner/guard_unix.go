//go:build unix

package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guard is the wrapper's end of its guard. A nil one is none.
type guard struct {
	orders  *os.File
	process *os.Process
	// gone is closed when its process is.
	gone <-chan struct{}
	// unsaid is what the pipe had no room for yet.
	unsaid []order
}

// order is a line for the guard. Of two of one kind only the newer counts; the rest of a
// line is of no kind.
type order struct{ kind, text string }

// guardLeaves bounds the wait for a guard that was dismissed.
const guardLeaves = time.Second

// startGuard starts the guard in a session of its own, where no key and no signal
// to the wrapper's group reaches it. A command can be run without one; then the
// wrapper alone must stay awake.
func startGuard(command GuardCommand, marks []string) *guard {
	if command.Path == "" {
		return nil
	}
	orders, wrapper, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer orders.Close() //nolint:errcheck // it is the guard's own end
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = wrapper.Close()
		return nil
	}
	defer null.Close() //nolint:errcheck // nothing was written
	p, err := os.StartProcess(command.Path, command.Args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{orders, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = wrapper.Close()
		return nil
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = p.Wait() // it ends when the pipe does, and has nothing to say
	}()
	g := &guard{orders: wrapper, process: p, gone: gone}
	g.order("%s", markOrder(marks))
	return g
}

// markOrder is the order that tells by which entries of its environment a process is the
// command's: by all of them together. It is one line, whatever is in a key, so that a
// half of it is none.
func markOrder(marks []string) string { return fmt.Sprintf("mark %q", strings.Join(marks, "\x00")) }

// order tells the guard something, and what there was no room for before. It does not
// wait: a guard that does not read must not hold the wrapper up, and goes by what it was
// told last, which ends sooner. And no write has a deadline, for a wrapper that was not
// running for a moment would miss it in front of an empty pipe.
func (g *guard) order(format string, args ...any) {
	if g == nil || g.orders == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	kind, _, _ := strings.Cut(line, " ")
	g.unsaid = slices.DeleteFunc(g.unsaid, func(o order) bool { return o.kind == kind })
	g.unsaid = append(g.unsaid, order{kind, line + "\n"})
	for len(g.unsaid) > 0 {
		first := &g.unsaid[0]
		n, err := writeNow(g.orders, first.text)
		switch {
		case n == len(first.text):
			g.unsaid = g.unsaid[1:]
		case n > 0:
			*first = order{text: first.text[n:]} // its rest, which nothing replaces
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		default: // nobody reads any more
			_ = g.orders.Close()
			g.orders = nil
			return
		}
	}
}

// writeNow writes what there is room for in a pipe.
func writeNow(pipe *os.File, text string) (n int, err error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	closed := raw.Write(func(fd uintptr) bool {
		n, err = unix.Write(int(fd), []byte(text)) // a pipe does not block
		return true
	})
	return n, errors.Join(err, closed)
}

func (g *guard) watches(pgid int) { g.order("group %d", pgid) }

func (g *guard) trusted(until Instant) { g.order("until %d %d", until.Boot, until.Wall) }

// dismiss sends the guard home, once. One that cannot be told is killed: it would take
// the end of its orders for the wrapper's, when the group's number may be another's.
func (g *guard) dismiss() {
	g.order("done")
	if g == nil || g.orders == nil {
		return
	}
	if len(g.unsaid) > 0 {
		_ = g.process.Kill() // it may have gone by itself
	}
	_ = g.orders.Close()
	g.orders = nil
}

// leaves returns when a guard that was dismissed has gone: to a wrapper around this
// one it would be something that the command has left behind.
func (g *guard) leaves() {
	if g == nil {
		return
	}
	select {
	case <-g.gone:
	case <-time.After(guardLeaves):
	}
}

// Guard watches over a wrapper, whose orders it reads: it kills the command when
// the wrapper is gone, or has not renewed its trust in time, be it because it is
// suspended. It returns when it is dismissed or nothing is left to watch.
func Guard(orders io.Reader, clock Clock) {
	// It goes when the wrapper does, and not before.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(orders); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	var w watched
	timer := time.NewTimer(longestTick)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case line, open := <-lines:
			if !open {
				w.kill() // the wrapper died
				return
			}
			if line == "done" {
				return
			}
			w.obey(line)
		}
		left := w.left(clock.Now())
		if left <= 0 {
			w.kill()
			left = longestTick // again, for what was born meanwhile
		}
		timer.Reset(min(left, longestTick))
	}
}

// watched is what a guard was told.
type watched struct {
	group int
	marks []string
	until Instant
}

func (w *watched) obey(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "mark":
		if marks, err := strconv.Unquote(rest); err == nil {
			w.marks = strings.Split(marks, "\x00")
		}
	case "group":
		w.group, _ = strconv.Atoi(rest) // 0 is nobody
	case "until":
		var boot, wall time.Duration
		if _, err := fmt.Sscanf(rest, "%d %d", &boot, &wall); err == nil {
			w.until = Instant{Boot: boot, Wall: wall}
		}
	}
}

// left is the time until one of the clocks says that the trust has run out.
func (w *watched) left(now Instant) time.Duration {
	left := w.until.Wall - now.Wall
	switch {
	case w.until == Instant{}:
		return longestTick
	case now.Boot != 0:
		return min(left, w.until.Boot-now.Boot)
	default:
		return left
	}
}

// kill kills the command: its group, and what has left the group but carries its
// marks. More than once, for what is born meanwhile.
func (w *watched) kill() {
	if w.group == 0 || len(w.marks) == 0 {
		return // it was told nothing, and no marks would fit strangers
	}
	for range killRounds {
		_ = unix.Kill(-w.group, unix.SIGKILL) // gone is what it is to be
		left := marked(w.marks)
		for _, pid := range slices.DeleteFunc(left, func(pid int) bool { return pid == os.Getpid() }) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(left) == 0 {
			return
		}
	}
}

const killRounds = 10
