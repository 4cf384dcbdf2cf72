package restore

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// page is what a person reads at night: the verdict, what it rests on, and the
// command to run next, in lines that fit.
type page struct {
	app    *app.App
	styles ui.Styles
	width  int
	err    error
	// apart tells that a blank line stands before what is said next.
	apart bool
}

// defaultWidth is how wide lines are where no terminal says it.
const defaultWidth = 100

func newPage(a *app.App) (*page, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	color, err := ui.ParseColorMode(cfg.Color)
	if err != nil {
		return nil, app.UsageError("", "%v", err)
	}
	p := &page{app: a, styles: a.Streams.OutStyles(color), width: a.Streams.Width}
	if p.width == 0 {
		p.width = defaultWidth
	}
	return p, nil
}

func (p *page) say(format string, args ...any) {
	if p.apart {
		format, p.apart = "\n"+format, false
	}
	if p.err == nil {
		if _, err := fmt.Fprintf(p.app.Streams.Out, format, args...); err != nil {
			p.err = fmt.Errorf("write the result: %w", err)
		}
	}
}

// part begins another part of the page, if it comes to anything.
func (p *page) part() { p.apart = true }

func (p *page) print(v ui.View) {
	p.say("")
	if p.err == nil {
		p.err = p.app.Print(v)
	}
}

// verdict is the first line.
func (p *page) verdict(tone ui.Tone, label, format string, args ...any) {
	text := strings.Fields(ui.Visible(fmt.Sprintf(format, args...)))
	// The label is as wide as it is; a badge has a blank at either side.
	if tone == ui.Alarm {
		label = " " + label + " "
	}
	indent := len(label) + 2
	for i, line := range fill(text, p.width-indent) {
		if i == 0 {
			p.say("%s  %s\n", p.styles.Paint(tone, label), p.styles.Paint(ui.Strong, line))
		} else {
			p.say("%s%s\n", strings.Repeat(" ", indent), p.styles.Paint(ui.Strong, line))
		}
	}
}

// factIndent is where the text behind a label begins.
const factIndent = 16

// fact is a labelled text, wrapped.
func (p *page) fact(tone ui.Tone, label, format string, args ...any) {
	text := strings.Fields(ui.Visible(fmt.Sprintf(format, args...)))
	for _, line := range fill(text, p.width-factIndent) {
		p.say("  %s%s\n", p.styles.Paint(ui.Faint, fmt.Sprintf("%-*s", factIndent-2, label)), p.styles.Paint(tone, line))
		label = ""
	}
}

// run is a command or a statement: it is never broken into lines, so that it can
// be copied.
func (p *page) run(label, command string) {
	p.say("  %s%s\n", p.styles.Paint(ui.Faint, fmt.Sprintf("%-*s", factIndent-2, label)), p.styles.Paint(ui.Strong, ui.Visible(command)))
}

// fill breaks words into lines of at most width runes, where words allow it.
func fill(words []string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// ago is how long ago that was where it is read at once, and when where it is kept.
func (p *page) ago(at time.Time) string {
	if p.app.Streams.OutTTY {
		return ui.Ago(p.app.Streams.Now().Sub(at))
	}
	return at.UTC().Format(time.RFC3339)
}

// cut shortens text to width runes where a table is read on a terminal; -o wide and
// a pipe show all of it.
func (p *page) cut(text string, width int) string {
	runes := []rune(text)
	if p.app.Streams.Width == 0 || p.app.Format() == ui.Wide || len(runes) <= max(width, 1) {
		return text
	}
	return string(runes[:max(width, 1)-1]) + "…"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
