package ui_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/ui"
)

func TestColored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		tty  bool
		mode ui.ColorMode
		env  map[string]string
		want bool
	}{
		{"terminal", true, ui.ColorAuto, nil, true},
		{"pipe", false, ui.ColorAuto, nil, false},
		{"always beats NO_COLOR and a pipe", false, ui.ColorAlways, map[string]string{"NO_COLOR": "1"}, true},
		{"never beats CLICOLOR_FORCE", true, ui.ColorNever, map[string]string{"CLICOLOR_FORCE": "1"}, false},
		{"NO_COLOR", true, ui.ColorAuto, map[string]string{"NO_COLOR": "0"}, false},
		{"NO_COLOR beats CLICOLOR_FORCE", true, ui.ColorAuto, map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, false},
		{"CLICOLOR_FORCE in a pipe", false, ui.ColorAuto, map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{"CLICOLOR_FORCE=0", false, ui.ColorAuto, map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{"CLICOLOR=0", true, ui.ColorAuto, map[string]string{"CLICOLOR": "0"}, false},
		{"dumb terminal", true, ui.ColorAuto, map[string]string{"TERM": "dumb"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _, _ := ui.Test("", c.env)
			if got := s.Colored(c.tty, c.mode); got != c.want {
				t.Errorf("Colored = %v, want %v", got, c.want)
			}
		})
	}
}

// Each stream is judged by itself: a piped stdout stays plain beside a
// coloured stderr.
func TestStylesPerStream(t *testing.T) {
	t.Parallel()
	s, _, _ := ui.Test("", nil)
	s.ErrTTY = true
	if got := s.OutStyles(ui.ColorAuto).Paint(ui.Bad, "x"); got != "x" {
		t.Errorf("piped stdout: %q", got)
	}
	if got := s.ErrStyles(ui.ColorAuto).Paint(ui.Bad, "x"); !strings.Contains(got, "\x1b[") {
		t.Errorf("terminal stderr: %q", got)
	}
	if got := s.ErrStyles(ui.ColorAuto).Paint(ui.Plain, "x"); got != "x" {
		t.Errorf("plain tone: %q", got)
	}
}

func TestColoredTableKeepsItsColumns(t *testing.T) {
	t.Parallel()
	plain, o, _ := ui.Test("", nil)
	if err := (ui.Printer{Streams: plain, Format: ui.Wide, Color: ui.ColorNever}).Print(view(rows)); err != nil {
		t.Fatal(err)
	}
	colored, oc, _ := ui.Test("", nil)
	if err := (ui.Printer{Streams: colored, Format: ui.Wide, Color: ui.ColorAlways}).Print(view(rows)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(oc.String(), "\x1b[") {
		t.Fatal("no colour at all")
	}
	if got := stripANSI(oc.String()); got != o.String() {
		t.Errorf("without its colours:\n%s\nwant\n%s", got, o.String())
	}
}

func stripANSI(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "y": true, "maybe\ny\n": true, "maybe": false,
	} {
		s, out, errOut := ui.Test(in, nil)
		s.InTTY, s.ErrTTY = true, true
		got, err := s.Confirm(t.Context(), "Revoke \x1bit?")
		if err != nil || got != want {
			t.Errorf("answer %q: %v, %v", in, got, err)
		}
		if out.Len() > 0 || !strings.HasPrefix(errOut.String(), `Revoke \x1bit? [y/N] `) {
			t.Errorf("answer %q: stdout %q, stderr %q", in, out, errOut)
		}
	}
}

func TestConfirmNeedsATerminal(t *testing.T) {
	t.Parallel()
	s, _, errOut := ui.Test("y\n", nil)
	s.InTTY = true // but stderr is piped: the question would not be seen
	if ok, err := s.Confirm(t.Context(), "Sure?"); ok || !errors.Is(err, ui.ErrNoTerminal) {
		t.Errorf("got %v, %v", ok, err)
	}
	if errOut.Len() > 0 {
		t.Errorf("asked nevertheless: %q", errOut)
	}
}

// A signal while the question stands ends the wait.
func TestConfirmIsCancelled(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &ui.Streams{In: r, Out: io.Discard, Err: &bytes.Buffer{}, InTTY: true, ErrTTY: true}
	done := make(chan error, 1)
	go func() {
		_, err := s.Confirm(ctx, "Sure?")
		done <- err
	}()
	cancel(cause)
	select {
	case err := <-done:
		if !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Confirm did not return")
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		350 * time.Millisecond:         "350ms left",
		12*time.Second + 999e6:         "12s left",
		5*time.Minute + 10*time.Second: "5m10s left",
		3 * time.Hour:                  "3h left",
		99 * time.Hour:                 "4d3h left",
		0:                              "lapsed 0ms ago",
		-5 * time.Second:               "lapsed 5s ago",
	} {
		if got := ui.Left(d); got != want {
			t.Errorf("Left(%s) = %q, want %q", d, got, want)
		}
	}
	if got := ui.Ago(-time.Hour); got != "just now" {
		t.Errorf("Ago(-1h) = %q", got)
	}
}

func TestParseModes(t *testing.T) {
	t.Parallel()
	if _, err := ui.ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "table, wide, json") {
		t.Errorf("ParseFormat: %v", err)
	}
	if _, err := ui.ParseColorMode("mauve"); err == nil || !strings.Contains(err.Error(), "auto, always or never") {
		t.Errorf("ParseColorMode: %v", err)
	}
}
