package postgres_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// cutter stands between a store and its server, and cuts the connection at the
// next commit that passes: before it, when the server has carried out all but
// that, or after it, when the server has answered and nobody hears.
type cutter struct {
	listener net.Listener
	server   string
	// next is 0, or one more than the locktest.Cut to make.
	next atomic.Int32
	// cuts counts those made.
	cuts atomic.Int64
}

func newCutter(t *testing.T, server pgtest.Server) *cutter {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, server: net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serve(t.Context())
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return c
}

func (c *cutter) cut(where locktest.Cut) { c.next.Store(int32(where) + 1) }

func (c *cutter) serve(ctx context.Context) {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		link := &link{cutter: c, client: client, server: server}
		go link.requests()
		go link.answers()
	}
}

// link is one connection through a cutter.
type link struct {
	*cutter
	client, server net.Conn
	deaf           atomic.Bool
}

func (l *link) close() { _ = l.client.Close(); _ = l.server.Close() }

// requests passes on what the client says, until a commit is to be cut.
func (l *link) requests() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		said := buf[:n]
		commit := commitIn(said)
		if commit < 0 || l.next.Load() == 0 {
			if _, err := l.server.Write(said); err != nil {
				return
			}
			continue
		}
		l.cuts.Add(1)
		switch locktest.Cut(l.next.Swap(0) - 1) {
		case locktest.BeforeCommit:
			_, _ = l.server.Write(said[:commit]) // the client goes on to wait for an answer, in vain
			return
		case locktest.AfterCommit:
			l.deaf.Store(true)
			if _, err := l.server.Write(said); err != nil {
				return
			}
		}
	}
}

// commitIn is where, in what a client sends at once, the commit of it begins; -1
// when nothing is carried out. Behind a pooler that is the COMMIT at the end of
// the pipeline; without one the server commits when it comes to the Sync.
func commitIn(said []byte) int {
	if !bytes.Contains(said, []byte("E\x00\x00\x00\x09\x00")) { // Execute, of the unnamed portal
		return -1
	}
	if commit := bytes.Index(said, []byte("COMMIT\x00")); commit >= 0 {
		return commit
	}
	if sync := []byte("S\x00\x00\x00\x04"); bytes.HasSuffix(said, sync) {
		return len(said) - len(sync)
	}
	return -1
}

// answers passes on what the server says, until nobody is to hear it.
func (l *link) answers() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}
		if l.deaf.Load() {
			if bytes.Contains(buf[:n], []byte("Z\x00\x00\x00\x05")) {
				return // ready for the next query: this one is carried out
			}
			continue
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// config sends a store's connections through the cutter.
func (c *cutter) config(opts postgres.Options) postgres.Options {
	opts.Config = opts.Config.Copy()
	opts.Config.Host = "127.0.0.1"
	opts.Config.Port = uint16(c.listener.Addr().(*net.TCPAddr).Port)
	opts.Config.Fallbacks = nil
	return opts
}
