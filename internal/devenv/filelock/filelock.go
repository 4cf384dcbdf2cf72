// Package filelock is a lock between processes that ends with its holder, however that one dies: flock on a file.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Lock is a held lock. The file is closed on exec, so no child inherits it.
type Lock struct{ file *os.File }

// Try takes the lock at path without waiting; false when somebody holds it. The file is made when it is not there.
func Try(path string) (*Lock, bool, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, false, fmt.Errorf("open the lock file: %w", err)
		}
		locked, err := flock(f)
		if err != nil {
			return nil, false, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
		}
		if !locked {
			return nil, false, f.Close()
		}
		if stillNamed(f) {
			return &Lock{file: f}, true, nil
		}
		// The holder before removed the file while we opened it: a lock on it would exclude nobody.
		if err := f.Close(); err != nil {
			return nil, false, fmt.Errorf("close the lock file: %w", err)
		}
	}
}

// Wait takes the lock at path, calling waiting once when somebody else holds it.
func Wait(ctx context.Context, path string, waiting func()) (*Lock, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		lock, ok, err := Try(path)
		if ok || err != nil {
			return lock, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func stillNamed(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, named)
}

// Release gives the lock up and leaves the file.
func (l *Lock) Release() error { return l.file.Close() }

// Remove takes the file away, then gives the lock up.
func (l *Lock) Remove() error {
	return errors.Join(os.Remove(l.file.Name()), l.file.Close())
}
