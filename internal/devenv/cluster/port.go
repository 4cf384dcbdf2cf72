package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range from which Linux (32768) and macOS (49152) serve outgoing connections, so that
// a stopped server finds its port free again.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePort returns a TCP port of 127.0.0.1 on which nobody listens. Somebody else may take it before the server does:
// the server's start reports that as ErrPortTaken.
func FreePort(ctx context.Context) (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // G404: a port is no secret
		if PortFree(ctx, port) {
			return port, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
	}
	return 0, fmt.Errorf("look for a free port between %d and %d on 127.0.0.1: all tried are taken", firstPort, lastPort)
}

// PortFree reports whether 127.0.0.1:port can be listened on.
func PortFree(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
