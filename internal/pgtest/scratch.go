package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// scratch is the folder of one test process. Beside it lies a lock of the same name, held for as long as the process
// lives: how the next process tells the folders of the dead, whatever killed them.
type scratch struct {
	path string
	lock *filelock.Lock
}

const lockSuffix = ".lock"

// newScratch sweeps what dead processes of this user left and makes a new folder.
func newScratch() (*scratch, error) {
	base := os.TempDir()
	if len(base) > 40 {
		base = "/tmp" // a unix socket's path must stay below 104 bytes (macOS), 108 (Linux)
	}
	prefix := fmt.Sprintf("dlockpg-%d-", os.Getuid())
	sweep(filepath.Join(base, prefix+"*"+lockSuffix))
	// Everybody may enter, because the server may run as another user; what matters is closed further down.
	path, err := os.MkdirTemp(base, prefix+"*")
	if err != nil {
		return nil, fmt.Errorf("make the folder of the test servers: %w", err)
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, fmt.Errorf("make the folder of the test servers: %w", err)
	}
	lock, ok, err := filelock.Try(path + lockSuffix)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the test servers: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("lock the folder of the test servers: somebody holds %s", path+lockSuffix)
	}
	return &scratch{path: path, lock: lock}, nil
}

// sweep removes the folders whose process is dead. What cannot be removed is left: it is in nobody's way.
func sweep(pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return
	}
	for _, name := range names {
		if lock, ok, err := filelock.Try(name); err == nil && ok {
			_ = (&scratch{path: strings.TrimSuffix(name, lockSuffix), lock: lock}).remove()
		}
	}
}

func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.path), s.lock.Remove())
}
