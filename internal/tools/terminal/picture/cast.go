package picture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Cast is a recorded session, in asciicast's second format: a header, then a line for
// each output with the seconds since the start.
type Cast struct {
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Command string `json:"command"`
	Events  []Event
}

// Event is what was written at once, and when.
type Event struct {
	At   time.Duration
	Text string
}

// header is the first line of the file.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Command string `json:"command"`
}

const castVersion = 2

// How long a row is shown before the next one comes: no shorter than it takes to read,
// and no longer than anybody waits. The last screen stays for a while, then it begins
// anew.
const (
	shortest = 300 * time.Millisecond
	longest  = 1500 * time.Millisecond
	rest     = 6 * time.Second
)

// Read reads a recording.
func Read(r io.Reader) (Cast, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return Cast{}, errors.New("read the recording: it is empty")
	}
	var h header
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return Cast{}, fmt.Errorf("read the recording's header: %w", err)
	}
	if h.Version != castVersion || h.Width < 1 || h.Height < 1 {
		return Cast{}, fmt.Errorf("read the recording's header: version %d, %d by %d; want version %d and a size", h.Version, h.Width, h.Height, castVersion)
	}
	c := Cast{Width: h.Width, Height: h.Height, Command: h.Command}
	for lines.Scan() {
		var at float64
		var kind, text string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&at, &kind, &text}); err != nil {
			return Cast{}, fmt.Errorf("read the recording's event %d: %w", len(c.Events)+1, err)
		}
		if kind == "o" {
			c.Events = append(c.Events, Event{At: time.Duration(at * float64(time.Second)), Text: text})
		}
	}
	if err := lines.Err(); err != nil {
		return Cast{}, fmt.Errorf("read the recording: %w", err)
	}
	return c, nil
}

// Write writes the recording as Read reads it.
func (c Cast) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(header{Version: castVersion, Width: c.Width, Height: c.Height, Command: c.Command}); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	for _, e := range c.Events {
		if err := out.Encode([]any{e.At.Round(time.Millisecond).Seconds(), "o", e.Text}); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
	return nil
}

// timed is a row and how long it is the last one.
type timed struct {
	row
	stays time.Duration
}

// Film draws the session as a picture. The first screen stands until it is read, then
// the rows come in from below. Who wants no movement sees the first screen alone.
func Film(c Cast) ([]byte, error) {
	lines, err := c.timed()
	if err != nil {
		return nil, err
	}
	f := Frame{Width: c.Width, Height: c.Height, Title: c.Command}
	var b strings.Builder
	f.open(&b, movement(lines, c.Height))
	b.WriteString(`<g class="m">` + "\n")
	for i, line := range lines {
		line.draw(&b, i)
	}
	b.WriteString("</g></svg></svg>\n")
	return []byte(b.String()), nil
}

// timed is the command and the rows that it wrote. The pause before an output is the
// time that the row before it had.
func (c Cast) timed() ([]timed, error) {
	p := newPage(c.Width)
	if err := p.write("\x1b[1m$ " + c.Command + "\x1b[0m\n"); err != nil {
		return nil, err
	}
	stays := []time.Duration{shortest}
	before := time.Duration(0)
	for _, e := range c.Events {
		stays[len(stays)-1] = min(max(e.At-before, shortest), longest)
		before = e.At
		if err := p.write(e.Text); err != nil {
			return nil, err
		}
		for len(stays) < len(p.rows) {
			stays = append(stays, shortest)
		}
	}
	lines := make([]timed, len(p.rows))
	for i := range lines {
		lines[i] = timed{row: p.rows[i], stays: stays[i]}
	}
	return lines, nil
}

// movement is the part of the style sheet that moves the rows up, one at a time.
func movement(lines []timed, height int) string {
	total := rest
	for _, l := range lines {
		total += l.stays
	}
	var b strings.Builder
	fmt.Fprintf(&b, "@keyframes m{")
	at := time.Duration(0)
	for i, l := range lines {
		up := i + 1 - height
		if up >= 0 || i == 0 {
			fmt.Fprintf(&b, "%.3f%%{transform:translateY(%.0fpx)}", 100*at.Seconds()/total.Seconds(), float64(-max(up, 0))*cellHeight)
		}
		at += l.stays
	}
	fmt.Fprintf(&b, "}\n@media (prefers-reduced-motion:no-preference){.m{animation:m %.1fs step-end infinite}}\n", total.Seconds())
	return b.String()
}
