package ui

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Step says how far something is.
type Step struct {
	// Done of Total parts are over; What is under way.
	Done, Total int
	What        string
	Elapsed     time.Duration
	// Left is a guess, 0 while there is none.
	Left time.Duration
}

// Progress shows how far something is, on Err: a bar that is drawn again and again
// on a terminal, a line every few seconds elsewhere.
type Progress struct {
	streams *Streams
	styles  Styles
	title   string
	bar     bool

	mu    sync.Mutex
	drawn bool
	last  time.Time
}

const (
	barCells = 20
	// barEvery is how often a bar may change, lineEvery how often a log gains a line;
	// the first comes as late.
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
	// narrow is the width of a terminal that does not say how wide it is.
	narrow = 80
)

// NewProgress begins one with a title. End ends it.
func (s *Streams) NewProgress(title string, mode ColorMode) *Progress {
	return &Progress{
		streams: s, styles: s.ErrStyles(mode), title: title, last: s.Now(),
		bar: s.ErrTTY && s.Env("TERM") != "dumb", // a dumb one cannot go back to the line's begin
	}
}

// Show tells the step, unless the one before was told a moment ago.
func (p *Progress) Show(step Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.streams.Now()
	if p.bar {
		if now.Sub(p.last) >= barEvery || !p.drawn {
			p.last, p.drawn = now, true
			fmt.Fprintf(p.streams.Err, "\r\x1b[K%s", p.line(step))
		}
		return
	}
	if now.Sub(p.last) >= lineEvery {
		p.last = now
		fmt.Fprintf(p.streams.Err, "%s: %s\n", p.title, Visible(step.text()))
	}
}

// End takes the bar off the screen.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.streams.Err, "\r\x1b[K")
		p.drawn = false
	}
}

// line is the bar as it fits the terminal: one that wraps could not be drawn over.
func (p *Progress) line(step Step) string {
	full := barCells * step.Done / max(step.Total, 1)
	head := []rune(fmt.Sprintf("%s %s%s ", p.title, strings.Repeat("█", full), strings.Repeat("░", barCells-full)))
	text := []rune(Visible(step.text()))
	width := p.streams.Width
	if width == 0 {
		width = narrow
	}
	head = head[:min(len(head), width-1)]
	text = text[:min(len(text), width-1-len(head))]
	return string(head) + p.styles.Paint(Faint, string(text))
}

func (s Step) text() string {
	text := fmt.Sprintf("%d of %d, %s", s.Done, s.Total, span(s.Elapsed))
	if s.Left > 0 {
		text += ", about " + span(s.Left.Round(time.Second)) + " left"
	}
	if s.What != "" {
		text += ": " + s.What
	}
	return text
}
