package httpd

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// listen opens the address, unless everyone could reach it and nobody would have
// to say who they are (K-12.2).
func listen(opts Options) (*net.TCPListener, error) {
	addr, err := net.ResolveTCPAddr("tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w; give HOST:PORT", opts.Listen, err)
	}
	if !addr.IP.IsLoopback() && opts.KeysFile == "" {
		return nil, fmt.Errorf("listen on %q: others can reach it, so callers must say who they are; "+
			"give --keys-file (dlockctl serve key makes its lines), with --client-ca-file for client certificates, or listen on 127.0.0.1", opts.Listen)
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", opts.Listen, err)
	}
	return listener, nil
}

// bounded accepts so many connections at a time, and closes the next at once: a
// client that is told so can try another server, one that waits unheard cannot.
type bounded struct {
	net.Listener

	open    atomic.Int64
	most    int64
	metrics *telemetry.HTTPMetrics
}

// Accept returns the next connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http looks at it itself
		}
		if b.open.Add(1) <= b.most {
			b.metrics.Connections.Inc()
			return &countedConn{Conn: conn, of: b}, nil
		}
		b.open.Add(-1)
		b.metrics.ConnectionsRefused.Inc()
		_ = conn.Close() // it is gone either way
	}
}

// countedConn gives its place back when it is closed, once.
type countedConn struct {
	net.Conn

	of   *bounded
	once sync.Once
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.of.open.Add(-1)
		c.of.metrics.Connections.Dec()
	})
	return c.Conn.Close() //nolint:wrapcheck // net/http looks at it itself
}
