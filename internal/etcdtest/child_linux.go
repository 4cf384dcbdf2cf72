package etcdtest

import "syscall"

// ownGroup is a process group of the member's own, so that what is typed at the test's
// terminal does not reach it. It ends with this process, were it stopped too.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
