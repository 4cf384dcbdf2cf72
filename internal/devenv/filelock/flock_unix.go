//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// noFollow refuses a link in place of the lock file.
const noFollow = syscall.O_NOFOLLOW

// flock locks an open file without waiting; false when somebody holds it.
func flock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err //nolint:wrapcheck // the caller names the file
}
