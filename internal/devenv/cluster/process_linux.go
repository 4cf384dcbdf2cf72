package cluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent makes the kernel send the signal when the thread that started the process is gone.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// serves looks where the process lives: a PostgreSQL server and its children live in their data folder. What another
// user runs cannot be looked into, and is not ours.
func (c Cluster) serves(_ context.Context, pid int) (bool, error) {
	return c.livesIn(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
}

// processInside reports whether any process lives in the data folder.
func (c Cluster) processInside(context.Context) (bool, error) {
	cwds, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return false, err
	}
	for _, cwd := range cwds {
		if inside, err := c.livesIn(cwd); inside || err != nil {
			return inside, err
		}
	}
	return false, nil
}

func (c Cluster) livesIn(cwd string) (bool, error) {
	home, err := os.Stat(cwd)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	data, err := os.Stat(c.Data())
	return err == nil && os.SameFile(home, data), err
}
