package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// supported refuses: servers are stopped by signals and guarded by file modes,
// which Windows has neither of.
func supported() error {
	return fmt.Errorf("the embedded databases do not run on Windows: set DLOCKCTL_LOCK_DSN and DLOCKCTL_PAY_DSN: %w", errors.ErrUnsupported)
}

func runAs(*exec.Cmd, uint32, uint32, []uint32) {}

func openFolder(path string) (*os.File, error) {
	return os.Open(path) //nolint:wrapcheck // the caller says what for
}

func signal(int, syscall.Signal) error { return errors.ErrUnsupported }

func exists(int) bool { return false }

// OwnerOf knows nothing here.
func OwnerOf(os.FileInfo) (uint32, bool) { return 0, false }
