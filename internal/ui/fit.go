package ui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Width is how many cells a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit cuts a text to a width, with a sign where something is missing.
func Fit(s string, width int) string { return ansi.Truncate(s, max(width, 0), "…") }

// Pad makes a text exactly so wide.
func Pad(s string, width int) string {
	s = Fit(s, width)
	return s + strings.Repeat(" ", max(width-Width(s), 0))
}
