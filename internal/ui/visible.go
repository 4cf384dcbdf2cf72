package ui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s with everything escaped that could play with a terminal or
// deceive its reader: control characters and ANSI escapes as \x1b, bidi marks
// and other invisible format characters as \u202e, bytes that are not UTF-8 as
// \xff.
func Visible(s string) string {
	if !hostile(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafeRune(r):
			b.WriteString(s[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteString(escapeRune(r))
		}
		i += size
	}
	return b.String()
}

func hostile(s string) bool {
	return !utf8.ValidString(s) || strings.IndexFunc(s, unsafeRune) >= 0
}

// unsafeRune tells the runes that a reader would not see as themselves:
// controls (Cc), format characters (Cf: bidi marks, zero-width joiners, tags)
// and the line and paragraph separators.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// escapeRune writes r as JSON, YAML and Go read it: \u202e, or a surrogate pair
// above the basic plane, which JSON alone needs.
func escapeRune(r rune) string {
	if r <= 0xffff {
		return fmt.Sprintf(`\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
}

// escapeUnsafe rewrites the unsafe runes of a JSON text, which can only stand
// inside its strings, as \u escapes: the value stays the same, and a terminal
// cannot be driven by it. Line breaks and tabs outside strings are kept;
// inside, the encoder has escaped them already.
func escapeUnsafe(text []byte) []byte {
	s := string(text)
	if strings.IndexFunc(s, unsafeInText) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeInText(r) {
			b.WriteString(escapeRune(r))
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

func unsafeInText(r rune) bool { return unsafeRune(r) && r != '\n' && r != '\t' }

// defuse keeps a spreadsheet from reading a string as a formula.
func defuse(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
