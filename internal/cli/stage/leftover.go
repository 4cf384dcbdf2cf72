package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// inUse is the file in a stage's folder that its process keeps locked for as long as it
// lives. A folder that has it, and nobody who holds it, was left by one that was killed.
const inUse = "in-use"

// prefix begins the names of all stages' folders.
const prefix = "dlockctl-"

// clearLeftovers removes what those have left, servers included, that were killed before
// they could: among the folders beside which a new one will be made, and of this user
// alone. What cannot be removed is said, and keeps nobody from playing.
func clearLeftovers(ctx context.Context, a *app.App, parent string) {
	if parent == "" {
		parent = os.TempDir()
	}
	folders, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return // a folder with a bracket in its name
	}
	for _, folder := range folders {
		lock, left := leftover(folder)
		if !left {
			continue
		}
		a.Progress("removing what one that was killed has left: " + folder)
		if err := clearOne(ctx, a, folder); err != nil {
			a.Warn("what one that was killed has left in %s stays: %v", folder, err)
		}
		_ = lock.Release() // the file is gone with the folder, or waits for the next one
	}
}

// leftover takes the lock of a folder that nobody uses any more. In a shared folder a name
// is anybody's: one that is not this user's own, or that others may write into, is left.
func leftover(folder string) (lock *filelock.Lock, left bool) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return nil, false
	}
	if owner, known := cluster.OwnerOf(info); known && int(owner) != os.Geteuid() {
		return nil, false
	}
	mark := filepath.Join(folder, inUse)
	if _, err := os.Lstat(mark); err != nil { // Try would make it
		return nil, false
	}
	lock, left, err = filelock.Try(mark)
	return lock, err == nil && left
}

func clearOne(ctx context.Context, a *app.App, folder string) error {
	env, err := devenv.Open(devenv.Options{StateDir: folder, Env: a.Streams.Env})
	if err != nil {
		return err
	}
	return remove(ctx, env, folder)
}

// use marks a new folder as this process's own, until it ends, however it ends.
func use(folder string) (*filelock.Lock, error) {
	lock, free, err := filelock.Try(filepath.Join(folder, inUse))
	if err == nil && !free {
		err = errors.New("somebody else has taken it")
	}
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", folder, err)
	}
	return lock, nil
}
