package pgtest

import (
	"crypto/rand"
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

// newScratch sweeps what dead processes of this user left below base and makes a new folder.
func newScratch(base string) (*scratch, error) {
	if len(base) > 40 {
		base = "/tmp" // a unix socket's path must stay below 104 bytes (macOS), 108 (Linux)
	}
	prefix := fmt.Sprintf("dlockpg-%d-", os.Getuid())
	sweep(filepath.Join(base, prefix+"*"+lockSuffix))
	for {
		path := filepath.Join(base, prefix+rand.Text()[:10])
		// The lock first: a folder whose lock nobody holds is taken for one of the dead.
		lock, ok, err := filelock.Try(path + lockSuffix)
		if err != nil {
			return nil, fmt.Errorf("lock the folder of the test servers: %w", err)
		}
		if !ok {
			continue // another process sweeps, and was faster to lock it
		}
		// Everybody may enter, because the server may run as another user; what matters is closed further down.
		if err := errors.Join(os.Mkdir(path, 0o711), os.Chmod(path, 0o711)); err != nil {
			return nil, errors.Join(fmt.Errorf("make the folder of the test servers: %w", err), lock.Remove())
		}
		return &scratch{path: path, lock: lock}, nil
	}
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
