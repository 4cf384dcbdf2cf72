//go:build unix && !linux

package etcdtest

import "syscall"

// ownGroup is a process group of the member's own, so that what is typed at the test's
// terminal does not reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
