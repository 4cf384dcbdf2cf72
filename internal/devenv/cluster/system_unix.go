//go:build unix

package cluster

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// supported is nil where servers can be run.
func supported() error { return nil }

// runAs makes cmd run as another user.
func runAs(cmd *exec.Cmd, uid, gid uint32, groups []uint32) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}
}

// openFolder opens a folder itself, never what a link of that name points to.
func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// signal sends a signal; no error for a process that is gone.
func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err //nolint:wrapcheck // the caller names the process
	}
	return nil
}

// exists reports whether a process with that id exists.
func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// OwnerOf is the user id that a file belongs to.
func OwnerOf(info os.FileInfo) (uint32, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}
