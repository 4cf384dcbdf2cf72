package picture

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes in pixels of a cell and of the frame around the cells.
const (
	cellWidth, cellHeight = 8.4, 18.0
	margin, bar           = 14.0, 30.0
)

// colours are the 16, in the light and in the dark; both are readable on their ground.
func colours() (light, dark [16]string) {
	light = [16]string{
		"#24292f", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#57606a",
		"#57606a", "#a40e26", "#1a7f37", "#9a6700", "#218bff", "#a475f9", "#3192aa", "#ffffff",
	}
	dark = [16]string{
		"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
		"#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
	}
	return light, dark
}

// Frame is the window that a picture is drawn in.
type Frame struct {
	// Width and Height are in cells.
	Width, Height int
	// Title stands in the bar of the window, and is what a screen reader says.
	Title string
}

func (f Frame) size() (width, height float64) {
	return float64(f.Width)*cellWidth + 2*margin, float64(f.Height)*cellHeight + bar + margin
}

// Still draws one screen. Rows that do not fit are an error.
func Still(f Frame, screen string) ([]byte, error) {
	p := newPage(f.Width)
	if err := p.write(screen); err != nil {
		return nil, err
	}
	if len(p.rows) > f.Height {
		return nil, fmt.Errorf("draw %s: %d rows on a screen of %d", f.Title, len(p.rows), f.Height)
	}
	var b strings.Builder
	f.open(&b, "")
	for i, line := range p.rows {
		line.draw(&b, i)
	}
	b.WriteString("</svg></svg>\n")
	return []byte(b.String()), nil
}

// open writes everything up to the first row: the window, and its inside as a picture
// of its own, which cuts off what does not fit.
func (f Frame) open(b *strings.Builder, extra string) {
	width, height := f.size()
	title := escape(f.Title)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n",
		width, height, width, height, title)
	fmt.Fprintf(b, "<title>%s</title>\n<style>\n%s%s</style>\n", title, sheet(), extra)
	fmt.Fprintf(b, `<rect class="w" x="0.5" y="0.5" width="%.0f" height="%.0f" rx="8"/>`+"\n", width-1, height-1)
	for i := range 3 {
		fmt.Fprintf(b, `<circle class="d" cx="%.0f" cy="%.0f" r="5"/>`, margin+6+float64(i)*18, bar/2)
	}
	fmt.Fprintf(b, "\n"+`<text class="t" x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", width/2, bar/2+4, title)
	fmt.Fprintf(b, `<svg x="%.0f" y="%.0f" width="%.0f" height="%.0f">`+"\n", margin, bar, float64(f.Width)*cellWidth, float64(f.Height)*cellHeight)
}

// sheet is the style sheet: a class for each colour before and behind the text.
func sheet() string {
	var b strings.Builder
	light, dark := colours()
	scheme := func(ground, ink, edge string, colours [16]string) {
		fmt.Fprintf(&b, "svg{--g:%s;--i:%s;--e:%s", ground, ink, edge)
		for i, c := range colours {
			fmt.Fprintf(&b, ";--c%d:%s", i, c)
		}
		b.WriteString("}")
	}
	scheme("#ffffff", "#24292f", "#d0d7de", light)
	b.WriteString("\n@media (prefers-color-scheme:dark){")
	scheme("#0d1117", "#e6edf3", "#30363d", dark)
	b.WriteString("}\n.w{fill:var(--g);stroke:var(--e)}.d{fill:var(--e)}\n" +
		"text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:var(--i);white-space:pre}\n" +
		".t{font-size:12px;opacity:.7}.b{font-weight:700}.f{opacity:.65}.r{fill:var(--g)}.k{fill:var(--i)}\n")
	for i := range light {
		fmt.Fprintf(&b, ".c%d{fill:var(--c%[1]d)}", i)
	}
	b.WriteString("\n")
	return b.String()
}

// draw writes a row. Each run says how wide it is, so that columns line up in every
// font.
func (l row) draw(b *strings.Builder, at int) {
	y := float64(at) * cellHeight
	for _, r := range l {
		r = r.trimmed()
		if len(r.text) == 0 {
			continue
		}
		x, width := float64(r.column)*cellWidth, float64(len(r.text))*cellWidth
		if class := r.ground(); class != "" {
			fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`, class, x, y, width, cellHeight)
		}
		fmt.Fprintf(b, `<text%s x="%.1f" y="%.0f" textLength="%.1f">%s</text>`, r.class(), x, y+13, width, escape(string(r.text)))
	}
	b.WriteString("\n")
}

// ground is the class of what is behind the text, "" for the window's own.
func (s style) ground() string {
	back := s.back
	if s.reverse {
		if s.fore < 0 {
			return "k"
		}
		back = s.fore
	}
	if back < 0 {
		return ""
	}
	return fmt.Sprintf("c%d", back)
}

func (s style) class() string {
	var classes []string
	switch {
	case s.reverse && s.back < 0:
		classes = append(classes, "r")
	case s.reverse:
		classes = append(classes, fmt.Sprintf("c%d", s.back))
	case s.fore >= 0:
		classes = append(classes, fmt.Sprintf("c%d", s.fore))
	}
	if s.bold {
		classes = append(classes, "b")
	}
	if s.faint {
		classes = append(classes, "f")
	}
	if classes == nil {
		return ""
	}
	return fmt.Sprintf(` class="%s"`, strings.Join(classes, " "))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes everything
	return b.String()
}
