package ui

import (
	"fmt"
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// ColorMode is what --color asks for.
type ColorMode string

// The modes of --color.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// ParseColorMode reads a --color value.
func ParseColorMode(s string) (ColorMode, error) {
	switch m := ColorMode(s); m {
	case ColorAuto, ColorAlways, ColorNever:
		return m, nil
	}
	return "", fmt.Errorf("color %q is unknown; give auto, always or never", s)
}

// Colored decides for one stream: --color first, then NO_COLOR (any value, as
// no-color.org has it), CLICOLOR_FORCE, then a terminal that is not dumb and
// has no CLICOLOR=0.
func (s *Streams) Colored(tty bool, mode ColorMode) bool {
	switch mode {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	case ColorAuto:
	}
	switch {
	case s.Env("NO_COLOR") != "":
		return false
	case s.Env("CLICOLOR_FORCE") != "" && s.Env("CLICOLOR_FORCE") != "0":
		return true
	case s.Env("TERM") == "dumb", s.Env("CLICOLOR") == "0":
		return false
	}
	return tty
}

// Tone says what a piece of text means; Styles decides how it looks.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Strong
	Faint
	Good
	Warn
	Bad
	// Alarm is a badge that nobody overlooks.
	Alarm
)

// Styles paints text for one stream.
type Styles struct{ styles map[Tone]lipgloss.Style }

// OutStyles and ErrStyles return the styles of the two output streams.
func (s *Streams) OutStyles(mode ColorMode) Styles {
	return newStyles(s.Out, s.Colored(s.OutTTY, mode))
}

// ErrStyles returns the styles of Err.
func (s *Streams) ErrStyles(mode ColorMode) Styles {
	return newStyles(s.Err, s.Colored(s.ErrTTY, mode))
}

func newStyles(w io.Writer, colored bool) Styles {
	if !colored {
		return Styles{}
	}
	// The renderer belongs to its writer: lipgloss's package-level styles look
	// at the process's stdout, whatever is being written to. The sixteen ANSI
	// colours follow the reader's own theme.
	r := lipgloss.NewRenderer(w)
	r.SetColorProfile(termenv.ANSI)
	return Styles{styles: map[Tone]lipgloss.Style{
		Strong: r.NewStyle().Bold(true),
		Faint:  r.NewStyle().Faint(true),
		Good:   r.NewStyle().Foreground(lipgloss.Color("2")),
		Warn:   r.NewStyle().Foreground(lipgloss.Color("3")),
		Bad:    r.NewStyle().Foreground(lipgloss.Color("1")).Bold(true),
		Alarm:  r.NewStyle().Foreground(lipgloss.Color("15")).Background(lipgloss.Color("1")).Bold(true),
	}}
}

// Paint returns text in the tone, or as it is where the stream has no colour.
func (s Styles) Paint(tone Tone, text string) string {
	style, ok := s.styles[tone]
	if !ok || text == "" {
		return text
	}
	return style.Render(text)
}
