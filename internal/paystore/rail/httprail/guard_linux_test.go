package httprail_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
)

// A connection that ends before the deadline takes what has not arrived with it, be it
// that its process dies: else the kernel would go on sending past the deadline. One whose
// other side has taken everything ends in order.
//
// Clauses: K-4.11
// Mutation: drop SetLinger from guard, or call it in Close alone.
func TestEndBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	conn, far := connect(t)
	if seconds := lingers(t, conn); seconds != 0 {
		t.Errorf("lingering %d; a process that dies leaves the kernel sending", seconds)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, 64<<20)) // more than the kernel takes
		wrote <- err
	}()
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("written: %v", err)
	}
	if n, err := io.Copy(io.Discard, far); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes arrived, %v; want it reset", n, err)
	}

	conn, far = connect(t)
	if _, err := conn.Write([]byte("a payment")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, make([]byte, len("a payment"))); err != nil {
		t.Fatal(err)
	}
	wait(t, "it has arrived", func() bool { return httprail.Unacknowledged(httprail.TCP(conn)) == 0 })
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, far); err != nil || n != 0 {
		t.Errorf("%d more bytes arrived, %v; want its end", n, err)
	}
}

// connect makes a payment's connection, long before its deadline.
func connect(t *testing.T) (conn, far net.Conn) {
	t.Helper()
	l := listen(t)
	defer l.Close()
	conn, err := httprail.Dial(t.Context(), func() time.Duration { return time.Minute }, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return conn, far
}

// lingers is for how many seconds the kernel goes on sending once nobody holds the
// connection, -1 for as long as it takes.
func lingers(t *testing.T, conn net.Conn) int {
	t.Helper()
	raw, err := httprail.TCP(conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	seconds := -1
	err = raw.Control(func(fd uintptr) {
		option, err := unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
		if err != nil {
			t.Error(err)
			return
		}
		if option.Onoff != 0 {
			seconds = int(option.Linger)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
