package top_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// store lists more locks, with longer keys, than a terminal takes before it is read from.
type store struct {
	lockstore.Store

	looks atomic.Int64
}

func (s *store) Close() {}

func (s *store) List(context.Context, lockstore.Filter) ([]lockstore.Entry, error) {
	s.looks.Add(1)
	var entries []lockstore.Entry
	for i := range 100 {
		entries = append(entries, lockstore.Entry{
			Key: fmt.Sprintf("%03d:%s", i, strings.Repeat(string(rune('a'+i%26)), 200)), Owner: "alice", Token: lockstore.Token(i + 1),
			ExpiresAt: lockstore.Time{Infinite: true},
		})
	}
	return entries, nil
}

// screen is dlockctl top before a terminal of its own.
type screen struct {
	t         *testing.T
	keys, tty *os.File
	stop      context.CancelCauseFunc
	exit      chan app.Exit
}

func newScreen(t *testing.T, open func(*app.App) app.OpenStore, flags ...string) *screen {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	s := &screen{t: t, stop: stop, exit: make(chan app.Exit, 1)}
	s.keys, s.tty = newTerminal(t)
	streams, _, _ := ui.Test("", map[string]string{"DLOCKCTL_LOCK_DSN": "host=/nowhere", "DLOCKCTL_OPERATOR": "ops"})
	streams.In, streams.Out, streams.Err, streams.InTTY, streams.OutTTY, streams.ErrTTY = s.tty, s.tty, s.tty, true, true, true
	args := append([]string{"top", "--interval", "200ms"}, flags...)
	a := app.New(streams, args)
	a.WithStore(open(a))
	go func() { s.exit <- cli.Run(ctx, a, args) }()
	return s
}

// always opens the same store.
func always(locks lockstore.Store) app.OpenStore {
	return func(context.Context, app.Purpose) (lockstore.Store, error) { return locks, nil }
}

// newStuck is a screen before a terminal that takes nothing more.
func newStuck(t *testing.T) *screen {
	t.Helper()
	locks := &store{}
	s := newScreen(t, func(*app.App) app.OpenStore { return always(locks) })
	s.until("it looks on while nothing is read", func(raw bool) bool { return raw && locks.looks.Load() > 5 })
	return s
}

// until waits for a state of the terminal's keys: raw, or as a shell has them.
func (s *screen) until(what string, is func(raw bool) bool) {
	s.t.Helper()
	pgtest.Eventually(s.t, what, func(context.Context) (bool, error) {
		state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
		return err == nil && is(state.Lflag&unix.ICANON == 0), err
	})
}

// Before a terminal that takes nothing more, q gives the keys back at once, and the screen when it
// is read from again.
//
// Mutation: give bubbletea the terminal itself, or a link that is no file.
func TestQuittingBeforeATerminalThatStandsStill(t *testing.T) {
	t.Parallel()
	s := newStuck(t)
	if _, err := s.keys.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	s.until("the keys are given back", func(raw bool) bool { return !raw })
	select {
	case exit := <-s.exit:
		t.Fatalf("exit %d before the screen was given back", exit)
	default:
	}
	var shown strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(shown.String(), "\x1b[?1049l"); {
		n, err := s.keys.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(buf[:n])
	}
	if exit := <-s.exit; exit != app.OK {
		t.Errorf("exit %d", exit)
	}
	if !strings.Contains(shown.String(), strings.Repeat("b", 200)) {
		t.Error("it is not as wide as the terminal")
	}
}

// A signal ends it before such a terminal too, which is not asked to take an error message.
//
// Mutation: speak in any case, or (under -race) hand bubbletea the context.
func TestSignalBeforeATerminalThatStandsStill(t *testing.T) {
	t.Parallel()
	s := newStuck(t)
	s.stop(&app.SignalError{Signal: syscall.SIGTERM})
	select {
	case exit := <-s.exit:
		if exit != 128+app.Exit(syscall.SIGTERM) {
			t.Errorf("exit %d", exit)
		}
	case <-time.After(time.Minute): // it hangs
		t.Error("it does not end")
	}
	s.until("the keys are given back", func(raw bool) bool { return !raw })
}

// newTerminal opens a wide terminal: what a person types and sees, and what a program reads and
// writes.
func newTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 100, Col: 400})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tty.Close(), keys.Close() })
	return keys, tty
}
