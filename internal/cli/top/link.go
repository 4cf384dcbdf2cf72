package top

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// grace is how long a signal lets a terminal that takes nothing be given back.
const grace = time.Second

// link is the way to the terminal, which may be slow or stand still. Bubbletea
// writes a frame under the lock that its event loop takes for the next one, so a
// write that blocked would stop the looks and the keys as well. Here a write only
// leaves the bytes. While some are on their way the model shows the frame that it
// has (see hold), so that never more than a frame waits behind another, and the
// next one is drawn from what stands when the link moves again.
type link struct {
	out io.Writer
	// tell is told when a frame was held back and the link is free again.
	tell func(tea.Msg)

	mu      sync.Mutex
	waiting []byte
	err     error
	held    bool
	// idle is closed when all has gone out, nil before the first write.
	idle chan struct{}
	busy bool
}

// Write leaves bytes to be sent. An earlier one's failure is told by the next.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	l.waiting = append(l.waiting, p...)
	if !l.busy {
		l.busy, l.idle = true, make(chan struct{})
		go l.send()
	}
	return len(p), nil
}

func (l *link) send() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			break
		}
		next := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		if _, err := l.out.Write(next); err != nil {
			l.mu.Lock()
			l.err, l.waiting = err, nil
			break
		}
	}
	held := l.held
	l.busy, l.held = false, false
	close(l.idle)
	l.mu.Unlock()
	if held {
		l.tell(movedMsg{})
	}
}

// hold tells that a frame has to wait, and asks to be told when it need not.
func (l *link) hold() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = l.busy
	return l.busy
}

// emptied waits until all has gone out, with the last of which the terminal is
// given back, and tells whether it has. Only a signal gives up on a link that
// stands still.
func (l *link) emptied(ctx context.Context) bool {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
	}
	select {
	case <-idle:
		return true
	case <-time.After(grace):
		return false
	}
}

// keep keeps a new size for as long as the link is not free: each has the whole
// screen drawn again.
func (m *model) keep(_ tea.Model, msg tea.Msg) tea.Msg {
	size, ok := msg.(tea.WindowSizeMsg)
	if !ok {
		return msg
	}
	if m.resized = nil; m.link.hold() {
		m.resized = &size
		return nil
	}
	return msg
}

// terminal is a link to a terminal, which bubbletea asks for its size where it is
// a file.
type terminal struct {
	*link

	file *os.File
}

func (t terminal) Read(p []byte) (int, error) { return t.file.Read(p) }
func (t terminal) Close() error               { return t.file.Close() }
func (t terminal) Fd() uintptr                { return t.file.Fd() }
