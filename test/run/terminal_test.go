//go:build linux

package run_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// screen is a program before a terminal of its own.
type screen struct {
	t     *testing.T
	keys  *os.File
	shown *buffer
	done  chan struct{}
}

// show starts a program as the leader of a session before a new terminal.
func (w *world) show(t *testing.T, argv ...string) *screen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	s := &screen{t: t, keys: keys, shown: &buffer{}, done: make(chan struct{})}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Env = append(w.env, "PATH="+filepath.Dir(w.dlockctl)+":"+os.Getenv("PATH"), "PS1=$ ", "INPUTRC=/dev/null")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			if err != nil {
				return // nobody is before the terminal any more
			}
			_, _ = s.shown.Write(buf[:n])
		}
	}()
	go func() {
		defer close(s.done)
		_ = cmd.Wait() // what it printed says how it went
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.done
		_ = keys.Close()
	})
	return s
}

func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until a text has been printed since the last one, and forgets what
// came before.
func (s *screen) shows(want string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("it shows %q", s.shown)
		}
	}()
	eventually(s.t, "it shows "+want, func() bool {
		s.shown.mu.Lock()
		defer s.shown.mu.Unlock()
		_, rest, found := strings.Cut(s.shown.text.String(), want)
		if found {
			s.shown.text.Reset()
			s.shown.text.WriteString(rest)
		}
		return found
	})
}

// The command reads the terminal, Ctrl-C is its own, and afterwards the terminal is
// the shell's again.
//
// Mutation: leave handTo out of start, or takeBack out of close.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.show(t, "sh", "-c", `dlockctl run k -- sh -c 'read x; echo "command: $x."'; read y; echo "shell: $y."
		dlockctl run k -- sh -c 'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.02; done'; echo "exit $?."; read z; echo "again: $z."`)
	s.types("one\n")
	s.shows("command: one.")
	s.types("two\n")
	s.shows("shell: two.")
	s.shows("ready")
	s.types("\x03")
	s.shows("caught")
	s.shows("exit 7.")
	s.types("three\n")
	s.shows("again: three.")
	<-s.done
}

// In a pipeline, where another may want the keys, the command gets the terminal
// when it asks for it.
//
// Mutation: follow every stop in group.suspend.
func TestTerminalInAPipeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.show(t, "sh", "-c", `dlockctl run k -- sh -c 'echo ready; read x; echo "command: $x."' | cat; read y; echo "shell: $y."`)
	s.shows("ready")
	s.types("one\n")
	s.shows("command: one.")
	s.types("two\n")
	s.shows("shell: two.")
	<-s.done
}

// Ctrl-Z stops the command and the wrapper, and the shell has the terminal; fg goes
// on with both, while the lease lasts. After it, the command is not woken up again.
//
// Clauses: K-2.10
// Mutation: leave stopSelf out of changed; or continue first, and look at the clocks
// then.
func TestJobControl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	s := w.show(t, "bash", "--norc", "--noprofile", "-i")
	s.types("dlockctl run long --ttl 1m -- " + w.child + " write " + first + "\n")
	eventually(t, "it writes", func() bool { return len(record(t, first)) > 0 })
	s.types("\x1a")
	s.shows("stopped with its command")
	s.shows("Stopped")
	lines := len(record(t, first))
	s.types("echo the shell is $((40 + 2))\n")
	s.shows("the shell is 42")
	if more := len(record(t, first)); more != lines {
		t.Errorf("it has written %d lines while it was stopped", more-lines)
	}
	s.types("fg\n")
	eventually(t, "it goes on", func() bool { return len(record(t, first)) > lines })
	s.types("\x03")
	s.types("echo exit $?.\n")
	s.shows("exit 130.")

	s.types("dlockctl run short --ttl 4s -- " + w.child + " write " + second + " stubborn\n")
	eventually(t, "it writes", func() bool { return len(record(t, second)) > 0 })
	s.types("\x1a")
	s.shows("Stopped")
	at := <-w.contender(t, "short", promptly)
	s.types("fg\n")
	s.types("echo exit $?.\n")
	s.shows("exit 202.")
	written := record(t, second)
	if last := written[len(written)-1].wall; !last.Before(at) {
		t.Errorf("a line was written %s after the next grant", last.Sub(at))
	}
}
