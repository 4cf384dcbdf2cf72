package httprail

import (
	"context"
	"errors"
	"fmt"
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
	tcp, isTCP := conn.(*net.TCPConn)
	if !isTCP {
		_ = conn.Close()
		return nil, fmt.Errorf("a payment is sent over TCP, and this is %s", network)
	}
	return guard(tcp, left, func() int { return unacknowledged(tcp) })
}

// socket is a TCP connection, as far as a guard needs one.
type socket interface {
	net.Conn
	SetLinger(seconds int) error
}

// guarded is a connection over which nothing leaves after the deadline (K-4.11). It
// stands below TLS, so that it sees every byte.
//
// A write that the kernel took is not a write that arrived: it keeps what was not
// acknowledged and sends it again, for minutes. By then somebody has asked the rail,
// heard that it knows nothing, and paid in another way. So at the deadline a
// connection with anything unacknowledged is reset, which throws it away; one whose
// other side has taken everything stays open, and a late answer is heard. A connection
// that ends before, with its process too, is reset in the same way.
type guarded struct {
	socket

	left func() time.Duration
	// kept is how many bytes were not acknowledged, -1 when that cannot be told.
	kept func() int
	// writing is held by who writes, and by who looks at what was kept: between a
	// write's look at the clock and the write itself, that is not all.
	writing chan struct{}
	end     *time.Timer
}

// guard watches over a connection that was just made.
func guard(conn socket, left func() time.Duration, kept func() int) (net.Conn, error) {
	// From the beginning, for a process that dies says nothing any more: the kernel
	// goes on sending for it, unless it was told to throw away.
	if err := conn.SetLinger(0); err != nil {
		_ = conn.Close()
		return nil, err
	}
	g := &guarded{socket: conn, left: left, kept: kept, writing: make(chan struct{}, 1)}
	g.end = time.AfterFunc(max(left(), 0), g.discard)
	return g, nil
}

func (g *guarded) Write(p []byte) (int, error) {
	g.writing <- struct{}{}
	defer g.written()
	now := time.Now() // before left, so that a pause between the two makes the write end early
	left := g.left()
	if left <= 0 {
		return 0, errTooLate
	}
	if err := g.SetWriteDeadline(now.Add(left)); err != nil {
		return 0, err //nolint:wrapcheck // the caller names the host
	}
	return g.socket.Write(p) //nolint:wrapcheck // the caller names the host
}

func (g *guarded) written() { <-g.writing }

// Close interrupts a write. Unless everything has arrived, it resets the connection.
func (g *guarded) Close() error {
	g.end.Stop()
	select {
	case g.writing <- struct{}{}:
		defer g.written()
		if g.kept() == 0 {
			_ = g.SetLinger(-1) // else it is reset, and that does no harm
		}
	default: // somebody writes
	}
	return g.socket.Close() //nolint:wrapcheck // the caller names the host
}

// discard resets the connection unless everything has arrived. A write that is under
// way has the deadline for its own, so that it is not waited for longer.
func (g *guarded) discard() {
	g.writing <- struct{}{}
	defer g.written()
	if g.kept() != 0 {
		_ = g.socket.Close()
	}
}
