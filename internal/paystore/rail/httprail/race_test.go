package httprail_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
)

// socket is one end of a pipe in place of a TCP connection.
type socket struct {
	net.Conn

	// write stands in for Write; may be nil.
	write  func([]byte) (int, error)
	linger int
	closed atomic.Bool
}

func (s *socket) SetLinger(seconds int) error {
	s.linger = seconds
	return nil
}

func (s *socket) Write(p []byte) (int, error) {
	if s.write != nil {
		return s.write(p)
	}
	return s.Conn.Write(p)
}

func (s *socket) Close() error {
	s.closed.Store(true)
	return s.Conn.Close()
}

// guard watches over one end of a pipe until the deadline, which is soon.
func guard(t *testing.T, s *socket, kept func() int) net.Conn {
	t.Helper()
	var far net.Conn
	s.Conn, far = net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	deadline := time.Now().Add(soon)
	conn, err := httprail.Guard(s, func() time.Duration { return time.Until(deadline) }, kept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A write that looked at the clock in time and reaches the kernel after the deadline:
// what it left there is thrown away.
//
// Clauses: K-4.11
// Mutation: let discard look without waiting for who writes: it finds nothing, and
// nobody looks again.
func TestWriteAtTheDeadlineIsThrownAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var kept atomic.Int64
		goes := make(chan struct{})
		s := &socket{write: func(p []byte) (int, error) {
			<-goes
			kept.Add(int64(len(p)))
			return len(p), nil
		}}
		conn := guard(t, s, func() int { return int(kept.Load()) })
		go func() {
			if _, err := conn.Write([]byte("a payment")); err != nil {
				t.Error(err)
			}
		}()
		<-time.After(2 * soon)
		synctest.Wait()
		if s.closed.Load() {
			t.Error("it was closed before there was anything to throw away")
		}
		close(goes)
		synctest.Wait()
		if !s.closed.Load() || s.linger != 0 {
			t.Errorf("closed %t, lingering %d; want it reset", s.closed.Load(), s.linger)
		}
	})
}

// A write that the other side does not take ends at the deadline, and the connection
// with it: nobody waits longer. A pause between the looks at the two clocks makes it
// end earlier, not later.
//
// Clauses: K-4.11
// Mutation: drop SetWriteDeadline, or call left before now in Write.
func TestBlockedWriteEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &socket{}
		conn := guard(t, s, func() int { return 1 })
		start := time.Now()
		_, err := conn.Write([]byte("a payment"))
		synctest.Wait()
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != soon || !s.closed.Load() {
			t.Errorf("%v after %s, closed %t; want it over after %s", err, took, s.closed.Load(), soon)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		start := time.Now()
		conn, err := httprail.Guard(&socket{Conn: near}, func() time.Duration {
			defer func() { <-time.After(soon / 2) }()
			return time.Until(start.Add(2 * soon))
		}, func() int { return 1 })
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("a payment")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > 2*soon {
			t.Errorf("%v after %s, want it over by %s", err, time.Since(start), 2*soon)
		}
	})
}

// Close does not wait for who writes: it interrupts.
//
// Mutation: wait in Close for who writes.
func TestCloseInterruptsAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &socket{}
		conn := guard(t, s, func() int { return 0 })
		wrote := make(chan error, 1)
		start := time.Now()
		go func() {
			_, err := conn.Write([]byte("a payment"))
			wrote <- err
		}()
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-wrote; !errors.Is(err, io.ErrClosedPipe) || time.Since(start) != 0 || s.linger != 0 {
			t.Errorf("%v after %s, lingering %d", err, time.Since(start), s.linger)
		}
	})
}

// Only a connection whose other side has taken everything ends in order.
//
// Clauses: K-4.11
// Mutation: call SetLinger(-1) in Close whatever is kept.
func TestCloseKeepsNothingSending(t *testing.T) {
	t.Parallel()
	for kept, linger := range map[int]int{0: -1, 1: 0, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &socket{linger: 5}
			if err := guard(t, s, func() int { return kept }).Close(); err != nil || s.linger != linger || !s.closed.Load() {
				t.Errorf("%d kept: %v, lingering %d, closed %t; want %d", kept, err, s.linger, s.closed.Load(), linger)
			}
		})
	}
}
