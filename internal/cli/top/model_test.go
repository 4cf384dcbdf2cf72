package top //nolint:testpackage // the model is nobody else's

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// fake is a feed that a test fills in.
type fake struct {
	entries []lockstore.Entry
	pulse   lockstore.Pulse
	err     error
	revoked []lockstore.RevokeParams
	outcome lockstore.LockOutcome
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func (f *fake) look(context.Context, lockstore.Token) (look, error) {
	return look{entries: f.entries, pulse: f.pulse, metered: true, at: noon}, f.err
}

func (f *fake) details(_ context.Context, key string) (lockstore.Entry, error) {
	for _, e := range f.entries {
		if e.Key == key {
			return e, nil
		}
	}
	return lockstore.Entry{}, lockstore.ErrNotFound
}

func (f *fake) revoke(_ context.Context, e lockstore.Entry, reason string) (lockstore.LockOutcome, error) {
	f.revoked = append(f.revoked, lockstore.RevokeParams{Key: e.Key, Token: e.Token, Reason: reason})
	return f.outcome, f.err
}

func entry(key, owner string, token lockstore.Token, age, left time.Duration) lockstore.Entry {
	return lockstore.Entry{
		Key: key, Owner: owner, Token: token, Session: "secret00-1111-4222-8333-444455556666", Age: age, Remaining: left, Expired: left <= 0,
		AcquiredAt: lockstore.Time{Time: noon.Add(-age)}, ExpiresAt: lockstore.Time{Time: noon.Add(left)},
	}
}

func screen(t *testing.T, f *fake) *model {
	t.Helper()
	streams, _, _ := ui.Test("", nil)
	m := newModel(t.Context(), f, settings{profile: "prod", interval: time.Second, styles: streams.OutStyles(ui.ColorNever), unicode: true})
	t.Cleanup(m.cancel)
	m.lookAt(t, noon)
	return m
}

// lookAt takes a look in as if it had been taken at a moment.
func (m *model) lookAt(t *testing.T, at time.Time) {
	t.Helper()
	msg, ok := m.lookNow()().(lookedMsg)
	if !ok {
		t.Fatal("a look gives no look")
	}
	msg.at = at
	m.Update(msg)
}

// pressAll presses keys, carries out what they lead to, and has each change drawn, as
// bubbletea does.
func (m *model) pressAll(keys ...string) {
	for _, k := range keys {
		code, special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "backspace": tea.KeyBackspace}[k]
		presses := []tea.KeyPressMsg{{Code: code}}
		if !special {
			presses = nil
			for _, r := range k {
				presses = append(presses, tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
		for _, press := range presses {
			if _, cmd := m.Update(press); cmd != nil {
				if answer := cmd(); answer != nil {
					m.Update(answer)
				}
			}
			m.View()
		}
	}
}

func locks() *fake {
	return &fake{entries: []lockstore.Entry{
		entry("account:1", "zoe", 7, 10*time.Second, 20*time.Second),
		entry("account:2", "adam", 9, 5*time.Minute, -3*time.Second),
		entry("evil\x1b[2J\u202e", "bob\tx", 8, time.Hour, time.Minute),
	}}
}

// In no size and no state does the screen leave its terminal, drive it, or show a
// session.
func TestScreenStaysInItsTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 40, Height: 8}, {Width: 1, Height: 1}, {Width: 200, Height: 60}} {
		for _, keys := range [][]string{nil, {"enter"}, {"/", "acc"}, {"r", "why"}, {"r", "why", "enter"}, {"down", "down", "s", "s", "p"}} {
			m := screen(t, locks())
			m.Update(size)
			m.pressAll(keys...)
			lines := strings.Split(m.draw(), "\n")
			if len(lines) > max(size.Height, 3) {
				t.Errorf("%v %q: %d lines", size, keys, len(lines))
			}
			for _, line := range lines {
				if ui.Width(line) > size.Width || strings.ContainsAny(line, "\x1b\t\u202e") || strings.Contains(line, "-1111-") {
					t.Errorf("%v %q: %q", size, keys, line)
				}
			}
		}
	}
}

func TestScreenAsItLooks(t *testing.T) {
	t.Parallel()
	m := screen(t, locks())
	m.feed.(*fake).pulse = lockstore.Pulse{Last: 30, Grants: 10, Waiting: 2}
	m.lookAt(t, noon.Add(2*time.Second))
	view := m.draw()
	for _, want := range []string{
		"dlockctl top  prod  2 held, 1 lapsed  every 1s",
		"grants/s    5.0 █", "contended/s    5.0 █", "2 blocked",
		"> account:1         zoe           7       10s       ██████████ 20s left",
		"  account:2         adam          9       5m        ░░░░░░░░░░ lapsed 3s ago",
	} {
		if !strings.Contains(view, want) {
			t.Errorf("no %q in\n%s", want, view)
		}
	}
	m.unicode = false
	if view := m.draw(); strings.ContainsAny(view, "█░▁") || !strings.Contains(view, "########## 20s left") {
		t.Errorf("without Unicode:\n%s", view)
	}
}

// The lease counts down between two looks, against the longest that was seen.
func TestLeaseCountsDown(t *testing.T) {
	t.Parallel()
	m := screen(t, locks())
	m.Update(tickMsg(noon.Add(10 * time.Second)))
	if view := m.draw(); !strings.Contains(view, "█████░░░░░ 10s left") {
		t.Errorf("after half of the lease:\n%s", view)
	}
}

func TestSortAndFilter(t *testing.T) {
	t.Parallel()
	m := screen(t, locks())
	for _, first := range []lockstore.Token{8, 9, 8, 9, 7} { // owner, token, age, lease, key
		m.pressAll("s")
		shown := m.shown()
		if m.sort == byOwner {
			first = 9 // adam
		}
		if shown[0].Token != first {
			t.Errorf("sorted by %d, token %s comes first", m.sort, shown[0].Token)
		}
	}
	m.pressAll("/", "2", "enter")
	if shown := m.shown(); len(shown) != 2 || shown[0].Key != "account:2" { // and the escape sequence holds a 2
		t.Errorf("filtered: %v", shown)
	}
	m.pressAll("esc")
	if len(m.shown()) != 3 {
		t.Error("esc does not end the filter")
	}
}

// Waiters have a column where there are any, and can be sorted by; in 80 columns key,
// owner and lease stay readable beside it.
//
// Mutation: leave byWait out of shown, or the column out of list.
func TestWaiters(t *testing.T) {
	t.Parallel()
	f := locks()
	m := screen(t, f)
	if view := m.draw(); strings.Contains(view, "WAIT") {
		t.Errorf("nobody waits:\n%s", view)
	}
	f.entries[1].Waiters = 37
	m.lookAt(t, noon)
	m.pressAll("s", "s", "s", "s", "s")
	view := m.draw()
	for _, want := range []string{"AGE       WAIT*  LEASE", "> account:2     adam       9       5m        37     ░░░░░░░░░░ lapsed 3s ago"} {
		if !strings.Contains(view, want) {
			t.Errorf("no %q in\n%s", want, view)
		}
	}
	if shown := m.shown(); shown[0].Key != "account:2" {
		t.Errorf("sorted by waiters, %q comes first", shown[0].Key)
	}
	m.selected = "account:2"
	m.pressAll("enter")
	if view := m.draw(); !strings.Contains(view, "WAITERS          37") {
		t.Errorf("details:\n%s", view)
	}
}

// The cursor stays with its key when others come and go.
func TestCursorStaysWithItsKey(t *testing.T) {
	t.Parallel()
	f := locks()
	m := screen(t, f)
	m.pressAll("down")
	f.entries = append([]lockstore.Entry{entry("aaa", "first", 10, 0, time.Second)}, f.entries...)
	m.lookAt(t, noon)
	if e, _ := m.current(); e.Key != "account:2" {
		t.Errorf("the cursor is on %q", e.Key)
	}
}

// A revoke names the very grant that was on the screen when r was pressed, wants a
// reason and a y, and nothing less.
//
// Clauses: K-3.1, K-3.3
// Mutation: revoke m.current() instead of the target, or take enter for y.
func TestRevokeFromTheScreen(t *testing.T) {
	t.Parallel()
	f := locks()
	f.outcome = lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: "account:1", Owner: "zoe", AuditID: 4}
	m := screen(t, f)
	for _, keys := range [][]string{{"r", "enter"}, {"r", "esc"}, {"r", "why", "esc"}, {"r", "why", "enter", "enter"}, {"r", "why", "enter", "n"}, {"r", " ", "enter"}} {
		m.pressAll(keys...)
		if len(f.revoked) > 0 {
			t.Fatalf("%q revoked %+v", keys, f.revoked)
		}
	}
	m.pressAll("r", "holder hangs", "backspace", "enter")
	if view := m.draw(); !strings.Contains(view, "revoke account:1, token 7, held by zoe for 10s, 20s left? y/N") {
		t.Errorf("the question is not there:\n%s", view)
	}
	f.entries[0].Token = 99 // taken over while the question stood
	m.lookAt(t, noon)
	m.pressAll("y")
	if len(f.revoked) != 1 || f.revoked[0].Key != "account:1" || f.revoked[0].Token != 7 || f.revoked[0].Reason != "holder hang" {
		t.Errorf("revoked %+v", f.revoked)
	}
	if !strings.Contains(m.draw(), "revoked account:1 from zoe, audit row 4") {
		t.Errorf("what became of it:\n%s", m.draw())
	}
}

// A look that fails leaves the last one standing, and says how old it is.
func TestFailedLook(t *testing.T) {
	t.Parallel()
	f := locks()
	m := screen(t, f)
	f.err = errors.New("connect to lockdb: refused")
	m.lookAt(t, noon)
	m.Update(tickMsg(noon.Add(7 * time.Second)))
	if view := m.draw(); !strings.Contains(view, "account:1") || !strings.Contains(view, "what stands above is 7s old: connect to lockdb: refused") {
		t.Errorf("after a failed look:\n%s", view)
	}
}

func TestDetailsAndLeaving(t *testing.T) {
	t.Parallel()
	m := screen(t, locks())
	m.pressAll("enter")
	if view := m.draw(); !strings.Contains(view, "SESSION          secret00…") || !strings.Contains(view, "BLOCKED BY       nobody") {
		t.Errorf("details:\n%s", view)
	}
	m.pressAll("x")
	_, cmd := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	if cmd == nil || m.ctx.Err() == nil {
		t.Error("q leaves nothing")
	}
}

func TestUnicodeTerminal(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"en_US.UTF-8": true, "C.utf8": true, "C": false, "": false} {
		if got := unicodeTerminal(func(name string) string { return map[string]string{"LANG": value}[name] }); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}
