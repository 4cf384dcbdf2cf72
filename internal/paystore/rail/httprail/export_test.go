package httprail

import (
	"context"
	"net"
	"time"
)

// Decode reads an answer about a key.
var Decode = decode

// Dial connects for a payment whose deadline left tells.
func Dial(ctx context.Context, left func() time.Duration, address string) (net.Conn, error) {
	return dial(withDeadline(ctx, left), "tcp", address)
}

// Guard watches over a connection of a test's own.
var Guard = guard

// TCP is the connection below a guard.
func TCP(conn net.Conn) *net.TCPConn { return conn.(*guarded).socket.(*net.TCPConn) }

// Unacknowledged is how much of it the kernel keeps.
var Unacknowledged = unacknowledged
