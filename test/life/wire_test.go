package life_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// side is where at a statement the client dies.
type side int

// The sides.
const (
	// before: the statement does not leave.
	before side = iota
	// after: the server has carried it out, and committed where that is what it says
	// or where it stands alone; nobody hears.
	after
)

func (s side) String() string { return [...]string{"before", "after"}[s] }

// wire stands between one client and paydb and reads what passes, statement by
// statement, those in one packet too. It lets the client die at one of them: all its
// connections are cut, and it gets no other.
type wire struct {
	listener net.Listener
	server   string
	// rewrite and split play mutations; may be nil. Before a statement that split names
	// the transaction is committed, and a new one begun.
	rewrite func(sql string) string
	split   func(sql string) bool

	mu       sync.Mutex
	counting bool
	passed   []string // since count
	dieAt    int      // 1 for the first; 0 for never
	side     side
	dead     bool
	died     chan struct{} // closed then
	links    []*link
}

func newWire(t *testing.T, server pgtest.Server) *wire {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, server: net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port)), died: make(chan struct{})}
	ended := make(chan struct{})
	go func() { defer close(ended); w.serve(t.Context()) }()
	t.Cleanup(func() { w.die(); <-ended })
	return w
}

// config leads through the wire, under a name that tells the client's sessions.
func (w *wire) config(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(w.listener.Addr().(*net.TCPAddr).Port), nil
	config.RuntimeParams["application_name"] = w.name()
	return config
}

func (w *wire) name() string { return "wire " + w.listener.Addr().String() }

// count begins to count; dieAt is the statement at which the client dies, 0 for none.
func (w *wire) count(dieAt int, where side) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counting, w.passed, w.dieAt, w.side = true, nil, dieAt, where
}

// counted ends it, and returns the statements, and whether the client died.
func (w *wire) counted() (statements []string, died bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counting = false
	return w.passed, w.dead
}

// comes counts a statement, and tells whether the client dies at it.
func (w *wire) comes(sql string) (where side, dies bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counting {
		return 0, false
	}
	w.passed = append(w.passed, sql)
	return w.side, len(w.passed) == w.dieAt
}

func (w *wire) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return
	}
	w.dead = true
	close(w.died)
	_ = w.listener.Close()
	for _, l := range w.links {
		l.close()
	}
}

func (w *wire) serve(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{wire: w, client: client, server: server, prepared: map[string]string{}, carried: make(chan struct{}, 1)}
		if !w.enter(l) {
			continue
		}
		group.Go(l.requests)
		group.Go(l.answers)
	}
}

func (w *wire) enter(l *link) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		l.close()
		return false
	}
	w.links = append(w.links, l)
	return true
}

// link is one connection of the client.
type link struct {
	*wire

	client, server net.Conn
	prepared       map[string]string // the client's statements, by name
	bound          string            // what an Execute carries out

	state   sync.Mutex
	deaf    bool // the client hears no more
	synced  bool // what is waited for ends with ReadyForQuery, not with its own answer
	left    int  // Executes that the server has not answered
	carried chan struct{}
}

func (l *link) close() { _ = l.client.Close(); _ = l.server.Close() }

// frame is one message: its type, 0 for the first of all, and its body.
type frame struct {
	kind byte
	body []byte
}

func readFrame(r *bufio.Reader, first bool) (f frame, err error) {
	if !first {
		if f.kind, err = r.ReadByte(); err != nil {
			return f, err
		}
	}
	var size [4]byte
	if _, err = io.ReadFull(r, size[:]); err != nil {
		return f, err
	}
	f.body = make([]byte, binary.BigEndian.Uint32(size[:])-4)
	_, err = io.ReadFull(r, f.body)
	return f, err
}

func (f frame) bytes() []byte {
	var out []byte
	if f.kind != 0 {
		out = append(out, f.kind)
	}
	return append(binary.BigEndian.AppendUint32(out, uint32(len(f.body)+4)), f.body...)
}

// text reads a string of a message, and what follows it.
func text(body []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(body, []byte{0})
	return string(s), rest
}

// requests passes on what the client says, until it dies.
func (l *link) requests() {
	defer l.close()
	in := bufio.NewReader(l.client)
	for first := true; ; first = false {
		f, err := readFrame(in, first)
		if err != nil {
			return
		}
		sql, executes := l.read(&f)
		if l.split != nil && f.kind == 'P' && l.split(sql) && !l.commitBefore() {
			return
		}
		if executes {
			where, dies := l.comes(sql)
			if dies && where == before {
				l.die()
				return
			}
			l.state.Lock()
			l.left++
			l.deaf = l.deaf || dies
			l.state.Unlock()
			if dies {
				l.last(in, f)
				return
			}
		}
		if _, err := l.server.Write(f.bytes()); err != nil {
			return
		}
	}
}

// read tells which statement a message is about, and whether it carries it out.
func (l *link) read(f *frame) (sql string, executes bool) {
	switch f.kind {
	case 'Q':
		sql, _ = text(f.body)
		return sql, true
	case 'P':
		name, rest := text(f.body)
		sql, rest := text(rest)
		if l.rewrite != nil {
			sql = l.rewrite(sql)
			f.body = slices.Concat([]byte(name+"\x00"+sql+"\x00"), rest)
		}
		l.prepared[name] = sql
		return sql, false
	case 'B':
		_, rest := text(f.body)
		name, _ := text(rest)
		l.bound = l.prepared[name]
	case 'E':
		return l.bound, true
	}
	return "", false
}

// last sends the client's last statement, waits until the server has carried it out,
// and lets nobody hear.
func (l *link) last(in *bufio.Reader, f frame) {
	synced := f.kind == 'Q'
	said := f.bytes()
	if !synced {
		// Where a Sync follows it is what commits; a client always says more.
		next, err := in.Peek(1)
		if err != nil {
			return
		}
		end := frame{kind: 'H'} // Flush: answer, and go no further
		if synced = next[0] == 'S'; synced {
			end.kind = 'S'
		}
		said = append(said, end.bytes()...)
	}
	l.state.Lock()
	l.synced = synced
	l.state.Unlock()
	if _, err := l.server.Write(said); err == nil {
		<-l.carried
	}
	l.die()
}

// commitBefore ends the transaction and begins another, and keeps the answers.
func (l *link) commitBefore() bool {
	l.state.Lock()
	l.deaf, l.synced = true, true
	l.state.Unlock()
	if _, err := l.server.Write(frame{'Q', []byte("COMMIT; BEGIN\x00")}.bytes()); err != nil {
		return false
	}
	if _, open := <-l.carried; !open {
		return false
	}
	l.state.Lock()
	defer l.state.Unlock()
	l.deaf = false
	return true
}

// answers passes on what the server says, while there is somebody to hear it.
func (l *link) answers() {
	defer l.close()
	defer close(l.carried)
	in := bufio.NewReader(l.server)
	for {
		f, err := readFrame(in, false)
		if err != nil {
			return
		}
		if l.hears(f) {
			if _, err := l.client.Write(f.bytes()); err != nil {
				return
			}
		}
	}
}

// hears counts an answer, and tells whether it is passed on.
func (l *link) hears(f frame) bool {
	l.state.Lock()
	defer l.state.Unlock()
	switch {
	case strings.ContainsRune("CIs", rune(f.kind)):
		l.left--
	case f.kind == 'Z':
		l.left = 0
	}
	if l.deaf && (l.synced && f.kind == 'Z' || !l.synced && (l.left == 0 || f.kind == 'E')) {
		select {
		case l.carried <- struct{}{}:
		default: // told already
		}
	}
	return !l.deaf
}
