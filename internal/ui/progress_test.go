package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/ui"
)

// clocked are streams whose clock a test moves.
func clocked(env map[string]string) (s *ui.Streams, said func() string, forward func(time.Duration)) {
	s, _, errOut := ui.Test("", env)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	return s, errOut.String, func(d time.Duration) { now = now.Add(d) }
}

func step(done int) ui.Step {
	return ui.Step{Done: done, Total: 40, What: "legs", Elapsed: time.Duration(done) * time.Second, Left: 12 * time.Second}
}

// A terminal gets one bar that is drawn over and taken away.
//
// Mutation: leave the carriage return out, or the barEvery.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	s, said, forward := clocked(map[string]string{"TERM": "xterm"})
	s.ErrTTY, s.Width = true, 80
	p := s.NewProgress("reconcile", ui.ColorNever)
	p.Show(step(10))
	p.Show(step(11)) // a moment later: not drawn
	forward(time.Second)
	p.Show(step(20))
	p.End()
	want := "\r\x1b[Kreconcile █████░░░░░░░░░░░░░░░ 10 of 40, 10s, about 12s left: legs" +
		"\r\x1b[Kreconcile ██████████░░░░░░░░░░ 20 of 40, 20s, about 12s left: legs" +
		"\r\x1b[K"
	if said() != want {
		t.Errorf("said %q, want %q", said(), want)
	}
}

// The bar never wraps.
//
// Mutation: do not cut the text.
func TestProgressNarrow(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]int{40: 39, 20: 19, 0: 66} {
		s, said, _ := clocked(nil)
		s.ErrTTY, s.Width = true, width
		s.NewProgress("reconcile", ui.ColorNever).Show(step(10))
		if line := strings.TrimPrefix(said(), "\r\x1b[K"); len([]rune(line)) != want {
			t.Errorf("on %d cells it has %d: %q", width, len([]rune(line)), line)
		}
	}
}

// A log, and a terminal that cannot go back, get a line every few seconds.
//
// Mutation: draw a bar there, or let the first line come at once.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	for name, tty := range map[string]bool{"log": false, "dumb terminal": true} {
		s, said, forward := clocked(map[string]string{"TERM": "dumb"})
		s.ErrTTY = tty
		p := s.NewProgress("reconcile", ui.ColorAlways)
		for i := range 12 {
			p.Show(step(i))
			forward(time.Second)
		}
		p.End()
		want := "reconcile: 5 of 40, 5s, about 12s left: legs\nreconcile: 10 of 40, 10s, about 12s left: legs\n"
		if said() != want {
			t.Errorf("%s: said %q, want %q", name, said(), want)
		}
	}
}
