package top //nolint:testpackage // the link is nobody else's

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// What bubbletea sends to take a terminal and to give it back.
const (
	entered, left       = "\x1b[?1049h", "\x1b[?1049l"
	cursorOff, cursorOn = "\x1b[?25l", "\x1b[?25h"
)

// line is a screen over a link that the test has stand still and move. All of it lives in one bubble of synctest: its time passes when nobody has anything to do.
type line struct {
	t     *testing.T
	model *model
	keys  *io.PipeWriter
	far   net.Conn
	stop  context.CancelCauseFunc
	// ended is closed when the screen was left, and givenBack and err say how.
	ended     chan struct{}
	givenBack bool
	err       error

	mu     sync.Mutex
	shown  bytes.Buffer
	stands bool
	moves  *sync.Cond
}

// connect starts a screen of a feed, over a link that moves.
func connect(t *testing.T, f feed) *line {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	near, far := net.Pipe()
	in, keys := io.Pipe()
	l := &line{
		t: t, keys: keys, far: far, stop: stop, ended: make(chan struct{}),
		model: newModel(ctx, f, settings{profile: "prod", interval: time.Second, unicode: true}),
	}
	l.moves = sync.NewCond(&l.mu)
	go l.carry()
	go func() {
		defer close(l.ended)
		l.givenBack, l.err = show(ctx, l.model, in, near, tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm"}))
	}()
	t.Cleanup(func() {
		stop(nil)
		l.stand(false)
		_, _ = near.Close(), far.Close()
		_, _ = in.Close(), keys.Close()
		<-l.ended
		<-time.After(time.Minute) // what still waits for a tick goes
	})
	return l
}

// carry carries what is sent, in pieces, as long as the link is not held up.
func (l *line) carry() {
	piece := make([]byte, 64)
	for {
		n, err := l.far.Read(piece)
		l.mu.Lock()
		l.shown.Write(piece[:n])
		for l.stands {
			l.moves.Wait()
		}
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// stand has the link stand still after the next piece, or move again.
func (l *line) stand(still bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stands = still
	l.moves.Signal()
}

// wait lets time pass until nobody has anything to do, and returns what came over the link
// meanwhile.
func (l *line) wait(d time.Duration) string {
	<-time.After(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.shown.Reset()
	return l.shown.String()
}

func (l *line) press(keys string) {
	l.t.Helper()
	if _, err := l.keys.Write([]byte(keys)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *line) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// counting gives each look an owner of its own, so that what is drawn tells the look.
type counting struct {
	fake
	looks int
}

func (c *counting) look(context.Context, lockstore.Token) (look, error) {
	c.looks++
	var entries []lockstore.Entry
	for i := range 18 {
		entries = append(entries, entry(fmt.Sprint("account:", i), c.owner(c.looks), lockstore.Token(100+i), time.Hour, time.Hour))
	}
	return look{entries: entries, at: time.Now()}, nil
}

// owner differs in each of its characters from one look to the next.
func (c *counting) owner(look int) string {
	return strings.Repeat(string(rune('a'+look/26)), 4) + strings.Repeat(string(rune('A'+look%26)), 4)
}

// still gives two locks that stay as they are but for an owner.
type still struct {
	fake
	mu    sync.Mutex
	owner string
}

func (s *still) look(context.Context, lockstore.Token) (look, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := []lockstore.Entry{entry("account:1", "adam", 1, time.Hour, time.Hour), entry("account:2", s.owner, 2, time.Hour, time.Hour)}
	for i := range entries {
		entries[i].ExpiresAt.Infinite = true
	}
	return look{entries: entries, at: time.Now()}, nil
}

func (s *still) set(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = owner
}

// A link that stands still stops neither the looks nor the keys, and nothing piles up: when it
// moves again, what is drawn is what stands then.
//
// Mutation: give bubbletea the connection itself, or leave hold out of View or of keep.
func TestLinkThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &counting{}
		l := connect(t, f)
		l.wait(10 * time.Second)
		l.stand(true)
		l.wait(90 * time.Second)
		if f.looks < 90 {
			t.Errorf("%d looks in 100 s", f.looks)
		}
		l.press("s/acc\r")
		for width := range 120 { // as a window is drawn larger by its corner
			l.model.link.tell(tea.WindowSizeMsg{Width: 80 + width, Height: 24})
			l.wait(time.Second / frames)
		}
		if l.model.sort != byOwner || l.model.filter != "acc" {
			t.Errorf("sorted by %d, filtered by %q", l.model.sort, l.model.filter)
		}
		waiting, freed := len(l.model.link.waiting), f.owner(f.looks)
		l.stand(false)
		shown := l.wait(time.Second)
		if frame := len(l.model.draw()); waiting > frame || len(shown) > 2*frame {
			t.Errorf("%d bytes waited and %d were sent, a frame has %d", waiting, len(shown), frame)
		}
		var drawn []string
		for look := range f.looks {
			if owner := f.owner(look + 1); strings.Contains(shown, owner) {
				drawn = append(drawn, owner)
			}
		}
		if len(drawn) > 3 || len(drawn) == 0 || drawn[len(drawn)-1] < freed {
			t.Errorf("%q were drawn in %d looks, want what stood when the link moved, %q, or later", drawn, f.looks, freed)
		}
		if l.model.width != 199 || !strings.Contains(shown, `filter "acc"`) {
			t.Errorf("%d wide, and it shows %q", l.model.width, shown)
		}
	})
}

// Nobody agrees to a question that they have not seen: y revokes nothing until it was
// drawn, and then what it asked.
//
// Clauses: K-3.1
// Mutation: leave asked out of press, or out of View.
func TestQuestionThatWasNotDrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &counting{}
		l := connect(t, f)
		l.wait(10 * time.Second)
		l.stand(true)
		l.wait(10 * time.Second) // a frame is on its way now, and the next has to wait
		l.press("rhangs\ry")
		l.wait(10 * time.Second)
		if len(f.revoked) > 0 || l.model.mode != confirming {
			t.Fatalf("unseen, it revoked %+v; mode %d", f.revoked, l.model.mode)
		}
		l.stand(false)
		if shown := l.wait(10 * time.Second); !strings.Contains(shown, "y/N") {
			t.Errorf("the question was not drawn: %q", shown)
		}
		l.press("y")
		l.wait(time.Second)
		if len(f.revoked) != 1 || f.revoked[0].Reason != "hangs" {
			t.Errorf("revoked %+v", f.revoked)
		}
	})
}

// What has not changed is not sent again.
//
// Mutation: draw something that differs each time, such as the clock with its nanoseconds in each line.
func TestOnlyWhatChangedIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &still{owner: "zoe"}
		l := connect(t, f)
		frame := len(l.wait(10 * time.Second))
		if shown := l.wait(time.Minute); shown != "" {
			t.Errorf("where nothing changed, a minute sent %q", shown)
		}
		f.set("eve")
		if shown := l.wait(2 * time.Second); !strings.Contains(shown, "eve") || strings.Contains(shown, "adam") || len(shown) > frame/10 {
			t.Errorf("one owner changed, and it sent %q", shown)
		}
	})
}

// It is left while the link stands still, by q as by Ctrl-C: the keys are given back at once, and
// the screen when the link moves again.
//
// Mutation: give bubbletea the connection itself, or do not wait in emptied.
func TestLeavingOverALinkThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"q", "\x03"} {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t, &counting{})
			l.wait(10 * time.Second)
			l.stand(true)
			l.wait(10 * time.Second)
			l.press(key)
			l.wait(time.Hour)
			if l.model.ctx.Err() == nil || l.hasEnded() {
				t.Fatalf("%q: left: %t, before the terminal was given back: %t", key, l.model.ctx.Err() != nil, l.hasEnded())
			}
			l.stand(false)
			l.restores(key)
		})
	}
}

// It is left just after the link has moved again, and by a signal.
//
// Mutation: do not wait in emptied once the context has ended.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"q", "\x03", "signal"} {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t, &counting{})
			l.stand(true)
			l.wait(10 * time.Second)
			l.stand(false)
			if how == "signal" {
				l.stop(context.Canceled)
			} else {
				l.press(how)
			}
			l.restores(how)
		})
	}
}

// restores wants the screen to have ended with the terminal given back.
func (l *line) restores(how string) {
	l.t.Helper()
	shown := l.wait(time.Second)
	after := func(last, other string) bool { return strings.LastIndex(shown, last) > strings.LastIndex(shown, other) }
	if !l.hasEnded() || !l.givenBack || !after(left, entered) || !after(cursorOn, cursorOff) {
		l.t.Errorf("%q: ended: %t, given back: %t (%v), and it sent %q", how, l.hasEnded(), l.givenBack, l.err, shown)
	}
}

// A signal leaves a link that never moves again, and does not take it for given back.
//
// Mutation: wait for idle alone in emptied.
func TestSignalLeavesADeadLink(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "q"} {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t, &counting{})
			l.wait(10 * time.Second)
			l.stand(true)
			l.wait(10 * time.Second)
			if key != "" {
				l.press(key)
			}
			l.wait(10 * time.Second)
			l.stop(context.Canceled)
			l.wait(grace)
			if !l.hasEnded() || l.givenBack {
				t.Errorf("after %q and a signal: ended: %t, given back: %t", key, l.hasEnded(), l.givenBack)
			}
		})
	}
}
