//go:build !linux

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent can do nothing here: a server whose data folder is swept away stops by itself within a minute.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// serves asks ps for the command line, which names the instance's folder.
func (c Cluster) serves(ctx context.Context, pid int) (bool, error) {
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil && len(out) > 0 {
		return false, fmt.Errorf("run ps: %w", err)
	}
	return c.commandServes(string(out)), nil // ps answers nothing and 1 for a process that is gone
}

// processInside reports whether any process names the instance's folder in its command line.
func (c Cluster) processInside(ctx context.Context) (bool, error) {
	out, err := exec.CommandContext(ctx, "ps", "-axww", "-o", "command=").Output()
	if err != nil {
		return false, fmt.Errorf("run ps: %w", err)
	}
	return slices.ContainsFunc(strings.Split(string(out), "\n"), c.commandServes), nil
}

// commandServes recognises `postgres -D <Dir>`.
func (c Cluster) commandServes(command string) bool {
	return strings.Contains(command, "postgres") && strings.Contains(command, c.Dir)
}
