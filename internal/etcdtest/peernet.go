//go:build unix

package etcdtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// peerNet is the network between the members: each is advertised at an address of this process, which passes on to the
// member's own what is not cut. Who dials is read from the first request of a connection: etcd's peers name themselves in
// its header, and no connection is shared between two of them.
type peerNet struct {
	sync.Mutex
	listeners []net.Listener
	ids       map[string]int // a member's id, as the header has it
	severed   map[int]bool
	links     map[*link]struct{}
	closed    bool
	work      sync.WaitGroup
}

// link is one connection from peer to peer.
type link struct {
	from      string // empty until it has said so
	to        int
	near, far net.Conn
}

func newPeerNet() *peerNet {
	return &peerNet{ids: map[string]int{}, severed: map[int]bool{}, links: map[*link]struct{}{}}
}

// listen opens the address at which a member is advertised; own is where it listens.
func (n *peerNet) listen(ctx context.Context, to int, own string) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.listeners = append(n.listeners, listener)
	n.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			n.work.Go(func() { n.serve(&link{to: to, near: conn}, own) })
		}
	})
	return listener.Addr().String(), nil
}

// learn tells which member has an id.
func (n *peerNet) learn(i int, id uint64) {
	n.Lock()
	defer n.Unlock()
	n.ids[fmt.Sprintf("%x", id)] = i
}

func (n *peerNet) serve(l *link, own string) {
	defer n.drop(l)
	if !n.keep(l) {
		return
	}
	// What is read ahead is replayed to the member.
	read := bufio.NewReader(l.near)
	var first replay
	request, err := http.ReadRequest(bufio.NewReader(io.TeeReader(read, &first)))
	if err != nil {
		return
	}
	far, err := net.Dial("tcp4", own) //nolint:noctx // it answers at once on this machine
	if err != nil {
		return // the member is down
	}
	if !n.connect(l, request.Header.Get("X-Server-From"), far) {
		return
	}
	n.work.Go(func() {
		_, _ = io.Copy(l.near, far) // how it ends is not told: the peers see it
		n.hangUp(l)
	})
	if _, err := far.Write(first); err != nil {
		return
	}
	_, _ = io.Copy(far, read)
}

// replay keeps what was read.
type replay []byte

func (r *replay) Write(p []byte) (int, error) {
	*r = append(*r, p...)
	return len(p), nil
}

// keep remembers a link, so that it can be cut.
func (n *peerNet) keep(l *link) bool {
	n.Lock()
	defer n.Unlock()
	if n.closed || n.severed[l.to] {
		return false
	}
	n.links[l] = struct{}{}
	return true
}

// connect gives a link its other end, unless it is cut.
func (n *peerNet) connect(l *link, from string, far net.Conn) bool {
	n.Lock()
	defer n.Unlock()
	l.from, l.far = from, far
	return !n.closed && !n.isSevered(l)
}

// isSevered reports whether one of a link's ends is cut off. A request without a name asks for a version, and goes
// nowhere while anybody is cut.
func (n *peerNet) isSevered(l *link) bool {
	if n.severed[l.to] {
		return true
	}
	if from, known := n.ids[l.from]; known {
		return n.severed[from]
	}
	return len(n.severed) > 0
}

func (n *peerNet) cut(i int) {
	n.Lock()
	defer n.Unlock()
	n.severed[i] = true
	for l := range n.links {
		if n.isSevered(l) {
			l.hangUp()
		}
	}
}

func (n *peerNet) heal(i int) {
	n.Lock()
	defer n.Unlock()
	delete(n.severed, i)
}

func (n *peerNet) isCut(i int) bool {
	n.Lock()
	defer n.Unlock()
	return n.severed[i]
}

func (n *peerNet) hangUp(l *link) {
	n.Lock()
	defer n.Unlock()
	l.hangUp()
}

func (l *link) hangUp() {
	for _, conn := range []net.Conn{l.near, l.far} {
		if conn != nil {
			_ = conn.Close() // twice is harmless
		}
	}
}

func (n *peerNet) drop(l *link) {
	n.Lock()
	defer n.Unlock()
	l.hangUp()
	delete(n.links, l)
}

func (n *peerNet) close() {
	n.Lock()
	n.closed = true
	for _, listener := range n.listeners {
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			panic(err) // a listener of ours always closes
		}
	}
	for l := range n.links {
		l.hangUp()
	}
	n.Unlock()
	n.work.Wait()
}
