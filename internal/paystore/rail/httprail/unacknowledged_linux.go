package httprail

import (
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged is how many bytes the kernel still keeps because the other side has
// not taken them, -1 when that cannot be told.
func unacknowledged(conn *net.TCPConn) int {
	kept := -1
	raw, err := conn.SyscallConn()
	if err != nil {
		return kept
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			kept = n
		}
	})
	return kept
}
