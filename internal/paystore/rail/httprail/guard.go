package httprail

import (
	"context"
	"errors"
	"net"
	"time"
)

// errTooLate is a payment that was not sent, or not to its end.
var errTooLate = errors.New("the forwarding deadline has passed: nothing more is sent")

type deadlineKey struct{}

// withDeadline passes the payment's deadline to its connection; left is zero or less
// when nothing may be sent any more.
func withDeadline(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, deadlineKey{}, left)
}

// dial connects. What is sent over a payment's connection is guarded.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	left, guards := ctx.Value(deadlineKey{}).(func() time.Duration)
	timeout := dialTimeout
	if guards {
		timeout = min(timeout, left())
	}
	if timeout <= 0 {
		return nil, errTooLate
	}
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
	if err != nil || !guards {
		return conn, err //nolint:wrapcheck // the caller names the host
	}
	g := &guarded{Conn: conn, left: left}
	g.end = time.AfterFunc(max(left(), 0), g.discard)
	return g, nil
}

// guarded is a connection over which nothing leaves after the deadline (K-4.11). It
// stands below TLS, so that it sees every byte.
//
// A write that the kernel took is not a write that arrived: it keeps what was not
// acknowledged and sends it again, for minutes. By then somebody has asked the rail,
// heard that it knows nothing, and paid in another way. So at the deadline a
// connection with anything unacknowledged is reset, which throws it away; one whose
// other side has taken everything stays open, and a late answer is heard.
type guarded struct {
	net.Conn

	left func() time.Duration
	end  *time.Timer
}

func (g *guarded) Write(p []byte) (int, error) {
	left := g.left()
	if left <= 0 {
		return 0, errTooLate
	}
	if err := g.SetWriteDeadline(time.Now().Add(left)); err != nil {
		return 0, err //nolint:wrapcheck // the caller names the host
	}
	return g.Conn.Write(p) //nolint:wrapcheck // the caller names the host
}

func (g *guarded) Close() error {
	g.end.Stop()
	return g.Conn.Close() //nolint:wrapcheck // the caller names the host
}

// discard resets the connection unless everything has arrived.
func (g *guarded) discard() {
	tcp, isTCP := g.Conn.(*net.TCPConn)
	if isTCP && unacknowledged(tcp) == 0 {
		return
	}
	if isTCP {
		_ = tcp.SetLinger(0) // else Close goes on sending
	}
	_ = g.Conn.Close()
}
