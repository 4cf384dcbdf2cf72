package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// StartDaemon starts the server with pg_ctl, detached from this process, and returns when it accepts connections.
// ErrPortTaken when somebody was faster; then Configure another port and start again. The caller has made sure that
// it does not run yet.
func (c Cluster) StartDaemon(ctx context.Context) error {
	log, err := c.openLog()
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return fmt.Errorf("make the server log: %w", err)
	}
	out, err := c.pgctl(ctx, "start", "--pgdata="+c.Dir, "--log="+c.LogFile(), "--wait", "--timeout=120")
	if err != nil {
		return c.explain(ctx, "pg_ctl start", err, out+"\n"+c.logTail())
	}
	return nil
}

// StopDaemon stops the server that StartDaemon started, in this process or another, and waits for its end. It needs
// no binaries, which may have been upgraded away. No error when none runs.
func (c Cluster) StopDaemon(ctx context.Context, mode Mode) error {
	server, running, err := c.Running(ctx)
	if err != nil || !running {
		return err
	}
	if err := signal(server.PID, mode.signal()); err != nil {
		return fmt.Errorf("signal process %d: %w", server.PID, err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of process %d: %w", server.PID, context.Cause(ctx))
		case <-tick.C:
			now, running, err := c.Running(ctx)
			if err != nil || !running || now.PID != server.PID {
				return err
			}
		}
	}
}

func (c Cluster) pgctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "pg_ctl"), args...)
	c.Account.prepare(cmd)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Running reads the pid file and decides whether its process is this instance's server: the number may meanwhile be
// another process's. False without an error when there is no pid file or it is stale.
func (c Cluster) Running(ctx context.Context) (Postmaster, bool, error) {
	p, err := ReadPostmaster(c.Data())
	if errors.Is(err, fs.ErrNotExist) {
		return Postmaster{}, false, nil
	}
	if err != nil {
		return Postmaster{}, false, err
	}
	if !p.Alive() {
		return p, false, nil
	}
	ours, err := c.serves(ctx, p.PID)
	if err != nil {
		return p, false, fmt.Errorf("find out whether process %d is the server of %s: %w", p.PID, c.Dir, err)
	}
	return p, ours, nil
}

// ClearStale removes the pid file and the socket's lock file of a server that Running said is gone. PostgreSQL does
// so itself unless their number is by now another process of its user, which it takes for a second server. When a
// process of the dead server is still inside the data folder nothing is removed, and the start will refuse.
func (c Cluster) ClearStale(ctx context.Context) error {
	p, err := ReadPostmaster(c.Data())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !p.Alive() {
		return err
	}
	if inside, err := c.processInside(ctx); err != nil || inside {
		return err
	}
	stale := []string{filepath.Join(c.Data(), "postmaster.pid")}
	if p.SocketDir != "" {
		stale = append(stale, filepath.Join(p.SocketDir, fmt.Sprintf(".s.PGSQL.%d.lock", p.Port)))
	}
	for _, name := range stale {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the stale pid file: %w", err)
		}
	}
	return nil
}
