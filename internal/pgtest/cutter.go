package pgtest

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Cut is a place at which a Cutter cuts.
type Cut int

// The places.
const (
	// BeforeCommit: the server has carried out all but the commit.
	BeforeCommit Cut = iota
	// AfterCommit: the server has answered the commit, and nobody hears.
	AfterCommit
)

// Cutter stands between a client and its server, and cuts the connection at the next commit that passes.
type Cutter struct {
	listener net.Listener
	server   string
	// next is 0, or one more than the Cut to make, once so many more have passed.
	next, pass atomic.Int32
	cuts       atomic.Int64
}

// NewCutter starts a cutter before a server; it ends with the test.
func NewCutter(t testing.TB, server Server) *Cutter {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{listener: listener, server: net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serve(t.Context())
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return c
}

// Config sends a client's connections through the cutter.
func (c *Cutter) Config(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	config.Host = "127.0.0.1"
	config.Port = uint16(c.listener.Addr().(*net.TCPAddr).Port)
	config.Fallbacks = nil
	return config
}

// Cut cuts at the next commit that passes.
func (c *Cutter) Cut(where Cut) { c.CutAfter(0, where) }

// CutAfter cuts at a later one. A query of its own, outside a transaction, counts as a commit too.
func (c *Cutter) CutAfter(pass int, where Cut) {
	c.pass.Store(int32(pass))
	c.next.Store(int32(where) + 1)
}

// Cuts counts those made.
func (c *Cutter) Cuts() int64 { return c.cuts.Load() }

func (c *Cutter) serve(ctx context.Context) {
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
		link := &link{Cutter: c, client: client, server: server}
		go link.requests()
		go link.answers()
	}
}

// link is one connection through a cutter.
type link struct {
	*Cutter

	client, server net.Conn
	deaf           atomic.Bool
	// inTransaction tells that the client has begun one and not ended it.
	inTransaction bool
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
		commit := l.commitIn(said)
		if commit < 0 || l.next.Load() == 0 || l.pass.Add(-1) >= 0 {
			if _, err := l.server.Write(said); err != nil {
				return
			}
			continue
		}
		l.cuts.Add(1)
		switch Cut(l.next.Swap(0) - 1) {
		case BeforeCommit:
			_, _ = l.server.Write(said[:commit]) // the client goes on to wait for an answer, in vain
			return
		case AfterCommit:
			l.deaf.Store(true)
			if _, err := l.server.Write(said); err != nil {
				return
			}
		}
	}
}

// commitIn is where, in what a client sends at once, the commit of it begins; -1 when nothing is committed. In a
// transaction of several statements that is a COMMIT of its own; behind a pooler the COMMIT at the end of the pipeline;
// otherwise the server commits when it comes to the Sync.
func (l *link) commitIn(said []byte) int {
	if said[0] == 'Q' { // what has no parameters is sent as a simple query
		text := bytes.ToUpper(said[min(5, len(said)):])
		switch {
		case bytes.HasPrefix(text, []byte("BEGIN")):
			l.inTransaction = !bytes.Contains(text, []byte("; COMMIT")) // which may end the same text
		case bytes.HasPrefix(text, []byte("ROLLBACK")):
			l.inTransaction = false
		case bytes.HasPrefix(text, []byte("COMMIT")):
			l.inTransaction = false
			return 0
		}
		return -1
	}
	if l.inTransaction || !bytes.Contains(said, []byte("E\x00\x00\x00\x09\x00")) { // Execute, of the unnamed portal
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
