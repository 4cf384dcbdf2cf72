package httprail_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
)

const (
	// soon is a forwarding deadline that a test waits for. It is set when everything else
	// is ready, and what comes before it comes in time on a busy machine too.
	soon = 3 * time.Second
	// late is so far past the deadline that whoever watches over it has looked.
	late = 300 * time.Millisecond
)

// A payment past its deadline is not sent: not even a connection is made.
//
// Clauses: K-4.11
// Mutation: drop the first look of Submit, and the one of dial.
func TestPastTheDeadlineNothingIsSent(t *testing.T) {
	t.Parallel()
	l := listen(t)
	defer l.Close()
	_, err := client(t, "http://"+l.Addr().String(), httprail.Options{}).Submit(t.Context(), payment(-time.Millisecond))
	if err == nil || !strings.Contains(err.Error(), "forwarding deadline has passed") {
		t.Errorf("%v", err)
	}
	if _, err := httprail.Dial(t.Context(), func() time.Duration { return 0 }, l.Addr().String()); err == nil {
		t.Error("it connects")
	}
	if err := l.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("somebody connected: %v", err)
	}
}

// A connection that was made in time, and whose handshake ends too late, carries no
// payment any more.
//
// Clauses: K-4.11
// Mutation: drop the look of (*guarded).Write: the payment arrives.
func TestSlowHandshakeSendsNothing(t *testing.T) {
	t.Parallel()
	var payments atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		payments.Add(1)
		fmt.Fprint(w, `{"idempotency_key": "k 1", "outcome": "ACKED"}`)
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	submitted := make(chan rail.Request, 1)
	through := slowly(t, s.Listener.Addr().String(), func() { passes(t, <-submitted) })
	c := client(t, "https://"+through, httprail.Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	req := payment(soon)
	submitted <- req
	if _, err := c.Submit(t.Context(), req); err == nil || !strings.Contains(err.Error(), "forwarding deadline has passed") {
		t.Errorf("%v", err)
	}
	if n := payments.Load(); n != 0 {
		t.Errorf("%d payments arrived", n)
	}
}

// passes waits until the payment's deadline is over.
func passes(t *testing.T, req rail.Request) {
	t.Helper()
	wait(t, "the deadline passes", func() bool { return req.Left() < -late })
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// slowly forwards one connection to address, and lets the answers go when hold
// returns.
func slowly(t *testing.T, address string, hold func()) string {
	t.Helper()
	l := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		front, err := l.Accept()
		if err != nil {
			return
		}
		defer front.Close()
		back, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			_, _ = io.Copy(back, front)
			_ = back.Close()
		}()
		hold()
		_, _ = io.Copy(front, back)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// An answer that comes late to a payment that went out in time is heard: its
// connection is closed by nobody.
//
// Mutation: reset every connection in discard.
func TestLateAnswerIsHeard(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		// Elsewhere it cannot be told what has arrived, and nothing late is heard.
		return
	}
	submitted := make(chan rail.Request, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		passes(t, <-submitted)
		fmt.Fprint(w, `{"idempotency_key": "k 1", "outcome": "ACKED", "reference": "late"}`)
	})
	c := client(t, s.URL, httprail.Options{})
	req := payment(soon)
	submitted <- req
	said, err := c.Submit(t.Context(), req)
	if err != nil || said.Outcome != paystore.OutcomeAcked || said.Reference != "late" {
		t.Errorf("%+v, %v", said, err)
	}
}

// What the other side has not taken when the deadline passes is thrown away: it does
// not arrive when the network is back.
//
// Clauses: K-4.11
// Mutation: drop discard, or SetLinger from it: the rest arrives after the deadline.
func TestUnacknowledgedIsThrownAway(t *testing.T) {
	t.Parallel()
	l := listen(t)
	defer l.Close()
	payload := make([]byte, 64<<20)
	deadline := time.Now().Add(soon)
	conn, err := httprail.Dial(t.Context(), func() time.Duration { return time.Until(deadline) }, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	// Nobody reads, so that the kernel keeps what it was given.
	sent, err := conn.Write(payload)
	if err == nil {
		t.Fatalf("%d bytes were taken", sent)
	}
	wait(t, "the connection is thrown away", func() bool {
		// Closed already is what is waited for.
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, readErr := conn.Read(make([]byte, 1))
		// Who closes lets nobody write meanwhile: when this returns it is done.
		_, err := conn.Write([]byte{1})
		return err != nil && errors.Is(readErr, net.ErrClosed)
	})
	if err := far.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil { // not for ever, where it fails
		t.Fatal(err)
	}
	arrived, err := io.Copy(io.Discard, far)
	if !errors.Is(err, syscall.ECONNRESET) || arrived >= int64(sent) {
		t.Errorf("%d of %d bytes arrived: %v", arrived, sent, err)
	}
}

// wait looks until yes says so, and fails when it never does.
func wait(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !yes(); <-tick.C {
		if time.Now().After(end) {
			t.Errorf("%s: it never did", what)
			return
		}
	}
}
