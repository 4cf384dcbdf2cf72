//go:build unix

package runner

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// group is a command as a process group of its own.
type group struct {
	pid   int
	inbox *inbox
	news  chan change
	tree  tree
	tty   *terminal
	guard *guard
	// ending is how the main process ended, once it has been reaped.
	reaped sync.Once
	ending syscall.WaitStatus
}

// start starts a command. It returns *StartError when the system does not execute
// it.
func start(s spec) (process, error) {
	files, closeFiles, err := withNull(s.files)
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	g := &group{inbox: s.inbox, news: make(chan change, 16), tty: openTerminal(s.files)}
	// What runs before the command, the guard too, is not the command's.
	g.guard = startGuard(s.guard, s.marks)
	g.tree = plantTree()
	attr := &os.ProcAttr{Env: s.env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
	dieWithParent(attr.Sys)
	g.tty.handTo(attr.Sys)
	started := make(chan error, 1)
	go func() {
		// The system looks at the thread that forked, not at the process: this one
		// stays until the command has ended (go.dev/issue/27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p, err := os.StartProcess(s.path, s.argv, attr)
		if err == nil {
			g.pid = p.Pid
			err = p.Release()
		}
		started <- err
		if err == nil {
			g.watch()
		}
	}()
	if err := <-started; err != nil {
		g.tty.leave()
		if g.tty != nil && g.tty.lent {
			g.tty.give(g.tty.own) // from one that came no further than its group
		}
		g.close()
		return nil, notStarted(s.argv[0], err)
	}
	g.guard.watches(g.pid)
	g.tree.grow(g.pid)
	g.tty.leave()
	return g, nil
}

// withNull opens the null device for what was not given: a closed end would be
// taken by the first file that the command opens.
func withNull(given [3]*os.File) ([]*os.File, func(), error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	files := make([]*os.File, len(given))
	for i, file := range given {
		if files[i] = file; file == nil {
			files[i] = null
		}
	}
	return files, func() { _ = null.Close() }, nil
}

// watch tells the news of the main process until its end.
func (g *group) watch() {
	for {
		c := g.await()
		g.news <- c
		if c.kind == ended {
			return
		}
	}
}

func (g *group) id() int                { return g.pid }
func (g *group) changes() <-chan change { return g.news }

// forward sends a signal to the group. A group that is gone has no use for it.
func (g *group) forward(sig syscall.Signal) { _ = syscall.Kill(-g.pid, sig) }

func (g *group) terminate() {
	g.all(syscall.SIGTERM)
	g.all(syscall.SIGCONT) // what is stopped takes no other signal in
}

func (g *group) kill() { g.all(syscall.SIGKILL) }

// all reaches the group, and what has left it but can be found.
func (g *group) all(sig syscall.Signal) {
	g.forward(sig)
	for _, pid := range g.tree.strays(g.pid) {
		_ = syscall.Kill(pid, sig) // it may have ended since
	}
}

func (g *group) others() int { return g.tree.others(g.pid) }

// suspend lends the terminal to a group that stopped for want of it, where it is
// ours to lend; otherwise the wrapper stops as well, so that the shell has it
// back. Without a terminal nobody would continue the two: the wrapper stays awake.
func (g *group) suspend(sig syscall.Signal) bool {
	if g.tty == nil || sig != syscall.SIGTSTP && sig != syscall.SIGTTIN && sig != syscall.SIGTTOU {
		return false
	}
	if sig != syscall.SIGTSTP && g.tty.isOurs() {
		g.tty.lent = true
		g.resume()
		return false
	}
	g.tty.takeBack(g.pid)
	return true
}

// resume continues the group, in the foreground when the wrapper was put there.
func (g *group) resume() {
	if g.tty != nil && g.tty.isOurs() && g.tty.lent {
		g.tty.give(g.pid)
	}
	g.forward(syscall.SIGCONT)
}

func (g *group) trusted(until Instant) { g.guard.trusted(until) }

func (g *group) end() ChildEnd {
	g.guard.dismiss() // before the number may be another's
	status := g.reap()
	if status.Signaled() {
		return ChildEnd{Signal: status.Signal()}
	}
	return ChildEnd{Code: status.ExitStatus()}
}

// reap takes the main process's end in, after which its number may be another's.
func (g *group) reap() syscall.WaitStatus {
	g.reaped.Do(func() {
		for {
			if _, err := syscall.Wait4(g.pid, &g.ending, 0, nil); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return g.ending
}

func (g *group) close() {
	g.guard.dismiss()
	g.guard.leaves()
	if g.tty != nil {
		g.tty.takeBack(g.pid)
		if g.ending.Signaled() {
			g.tty.mend()
		}
		g.tty.close()
	}
	g.tree.close()
}

// terminal is the controlling terminal. A nil one is none.
type terminal struct {
	file *os.File
	own  int
	// modes are as they were before the command.
	modes *term.State
	// eager: the command has it from the beginning; lent: it was given once.
	eager, lent bool
}

// openTerminal opens the controlling terminal. The command gets it at once when
// the wrapper stands alone before it; in a pipeline, where another may read keys
// from it, only when it asks.
func openTerminal(files [3]*os.File) *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, own: unix.Getpgrp()}
	if t.modes, err = term.GetState(int(file.Fd())); err != nil {
		t.modes = nil
	}
	t.eager = t.isOurs() && isTerminal(files[0]) && isTerminal(files[1])
	return t
}

func isTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}

// handTo starts a process in the foreground.
func (t *terminal) handTo(attr *syscall.SysProcAttr) {
	if t != nil && t.eager {
		attr.Foreground, attr.Ctty, t.lent = true, int(t.file.Fd()), true
	}
}

// leave lets the wrapper write to the terminal and take it back, though it stands
// in the background. The command was started before, and does not inherit it.
func (t *terminal) leave() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

func (t *terminal) isOurs() bool { return t.foreground() == t.own }

func (t *terminal) foreground() int {
	pgid, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgid
}

func (t *terminal) give(pgid int) {
	t.lent = true
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, pgid) // hung up
}

// takeBack takes the terminal back from the command, and from nobody else.
func (t *terminal) takeBack(pgid int) {
	if t.foreground() == pgid {
		_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, t.own)
	}
}

// mend puts the modes back that a command which was killed could not.
func (t *terminal) mend() {
	if t.modes != nil && t.lent {
		_ = term.Restore(int(t.file.Fd()), t.modes) // hung up
	}
}

func (t *terminal) close() {
	signal.Reset(syscall.SIGTTOU)
	_ = t.file.Close()
}
