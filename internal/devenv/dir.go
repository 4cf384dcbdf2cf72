package devenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// marker says that dlockctl made the folder and may remove it.
const marker = ".made-by-dlockctl-dev"

const markerText = "dlockctl dev made this folder; `dlockctl dev destroy` removes it.\n"

func stateDir(opts Options) (string, error) {
	for _, dir := range []string{opts.StateDir, opts.Env("DLOCKCTL_STATE_DIR")} {
		if dir == "" {
			continue
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolve the state folder %q: %w", dir, err)
		}
		return abs, nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/dlockctl", nil // not below /root, which the servers' user may not enter
	}
	if dir := opts.Env("XDG_STATE_HOME"); filepath.IsAbs(dir) { // a relative one is to be ignored, its specification says
		return filepath.Join(dir, "dlockctl"), nil
	}
	home := opts.Env("HOME")
	if !filepath.IsAbs(home) {
		return "", setup("find the state folder: HOME is not set; name one with DLOCKCTL_STATE_DIR")
	}
	return filepath.Join(home, ".local", "state", "dlockctl"), nil
}

// mode of the folders: nobody else looks in, but root's servers run as another user and must pass through.
func mode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// MakeFolder makes a state folder, and those above it, where there are none.
func MakeFolder(dir string) error {
	if err := mkdirAll(dir, mode()); err != nil {
		return unwritable(err)
	}
	return nil
}

// makeParent makes the state folder where there is none.
func (e *Env) makeParent() error { return MakeFolder(filepath.Dir(e.dir)) }

// makeDir makes the folder where there is none and writes the marker; it refuses one with foreign content.
func (e *Env) makeDir() error {
	if err := MakeFolder(e.dir); err != nil {
		return err
	}
	made, err := e.made()
	if err != nil || made {
		return err
	}
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("look into %s: %w", e.dir, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), cluster.TempPrefix) {
			continue // the marker of an up that was killed
		}
		return setup("%s holds %q and was not made by dlockctl dev; choose another state folder with DLOCKCTL_STATE_DIR",
			e.dir, entry.Name())
	}
	if err := cluster.WriteFile(filepath.Join(e.dir, marker), []byte(markerText), 0o600); err != nil {
		return unwritable(err)
	}
	return nil
}

// mkdirAll gives the mode to the folders that it makes, whatever the umask, and leaves the others alone.
func mkdirAll(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mkdirAll(filepath.Dir(dir), mode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, mode)
}

// made reports whether the folder is there and has the marker. It is an error when it is somebody else's.
func (e *Env) made() (bool, error) {
	if err := e.checkOwner(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	_, err := os.Lstat(filepath.Join(e.dir, marker))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the marker: %w", err)
	}
	return true, nil
}

// checkOwner refuses a folder that another user could exchange or write into: a name in a shared folder is anybody's.
func (e *Env) checkOwner() error {
	info, err := os.Lstat(e.dir)
	if err != nil {
		return fmt.Errorf("look at the state folder: %w", err)
	}
	if !info.IsDir() {
		return setup("%s is not a folder (a link is not followed); choose another state folder with DLOCKCTL_STATE_DIR", e.dir)
	}
	owner, ok := cluster.OwnerOf(info)
	if ok && int(owner) != os.Geteuid() {
		return setup("%s belongs to user id %d, not to you (%d); choose a state folder of your own with DLOCKCTL_STATE_DIR",
			e.dir, owner, os.Geteuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return setup("%s may be written by others (mode %04o); run chmod go-w on it or choose another state folder",
			e.dir, info.Mode().Perm())
	}
	return nil
}

func unwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return setup("state folder is not writable: %w; choose another with DLOCKCTL_STATE_DIR", err)
	}
	return fmt.Errorf("use the state folder: %w", diskFull(err))
}
