package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Mode is one of PostgreSQL's shutdown modes.
type Mode string

// The modes: Fast rolls back and checkpoints; Immediate is a crash, recovered from at the next start.
const (
	Fast      Mode = "fast"
	Immediate Mode = "immediate"
)

func (m Mode) signal() syscall.Signal {
	if m == Immediate {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// Child is a running server whose parent is this process. On Linux it does not outlive the process.
type Child struct {
	PID  int
	Port int
	kill func(syscall.Signal) error
	done chan struct{}
	err  error // set before done is closed
}

// StartChild starts the server as a direct child and returns when it accepts connections. ErrPortTaken when
// somebody was faster; then Configure another port and start again.
func (c Cluster) StartChild(ctx context.Context, port int) (*Child, error) {
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	// The context bounds the start; the server outlives it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(c.Bin, "postgres"), "-D", c.Dir)
	c.Account.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd.SysProcAttr, Immediate.signal())

	child := &Child{Port: port, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(child.done)
		// The kernel sends the parent-death signal when the *thread* that forked ends, so this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if closeErr := log.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
		started <- err
		if err == nil {
			child.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, c.explain(ctx, "postgres", err, "")
	}
	child.PID = cmd.Process.Pid
	child.kill = func(s syscall.Signal) error { return cmd.Process.Signal(s) }
	if err := c.awaitReady(ctx, child); err != nil {
		return nil, err
	}
	return child, nil
}

func (c Cluster) awaitReady(ctx context.Context, child *Child) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-child.done:
			return c.explain(ctx, "postgres", fmt.Errorf("the server ended while starting: %w", child.err), c.logTail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for the server: %w", context.Cause(ctx)), child.Stop(Immediate))
		case <-tick.C:
			if p, err := ReadPostmaster(c.Data()); err == nil && p.PID == child.PID && p.Ready {
				return nil
			}
		}
	}
}

// Stop ends the server and waits until its process is gone.
func (c *Child) Stop(mode Mode) error {
	if err := c.kill(mode.signal()); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server: %w", err)
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case <-c.done:
		return nil
	case <-limit.C:
		return fmt.Errorf("stop the server: process %d still runs after a minute", c.PID)
	}
}

// openLog makes a fresh server.log, keeping the one before as server.log.1, and gives it to the server's user,
// because pg_ctl opens it by name.
func (c Cluster) openLog() (*os.File, error) {
	if err := os.Rename(c.LogFile(), c.LogFile()+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keep the old server log: %w", err)
	}
	f, err := os.OpenFile(c.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the server log: %w", err)
	}
	if err := c.Account.own(f); err != nil {
		return nil, errors.Join(fmt.Errorf("give the server log to %q: %w", c.Account.Name, err), f.Close())
	}
	return f, nil
}

func (c Cluster) logTail() string {
	text, err := os.ReadFile(c.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
