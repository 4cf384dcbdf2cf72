// Package plaintext says which names and notes of a caller may be kept and shown: the
// rule that both stores share, who know nothing of each other (K-6.2). Its errors name
// the value and the fix; the store wraps them in an error of its own.
package plaintext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name refuses a name that is empty, blank, longer than limit bytes, not UTF-8 or
// holds a control character. what names it in the error.
func Name(what, s string, limit int) error {
	if err := check(what, s, limit, ""); err != nil {
		return err
	}
	if blank(s) {
		return fmt.Errorf("%s %s is blank; give one that can be seen", what, Shown(s))
	}
	return nil
}

// Note refuses a note by the rules of [Name], but for line breaks and tabs, since a
// person may paste it.
func Note(what, s string, limit int) error {
	if err := check(what, s, limit, "\n\t"); err != nil {
		return err
	}
	if blank(s) {
		return fmt.Errorf("%s is blank; say why, the record keeps it", what)
	}
	return nil
}

func check(what, s string, limit int, allowed string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty; give one", what)
	case len(s) > limit:
		return fmt.Errorf("%s %s is %d bytes long; shorten it to %d", what, Shown(s), len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %s is not UTF-8; re-encode it", what, Shown(s))
	}
	for i, r := range s {
		if unicode.IsControl(r) && !strings.ContainsRune(allowed, r) {
			return fmt.Errorf("%s %s has the control character U+%04X at byte %d; remove it", what, Shown(s), r, i)
		}
	}
	return nil
}

// blank tells that a reader would see nothing of s.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }) < 0
}

// Shown quotes a refused value for a message: escaped, so that it cannot play with
// the terminal, and shortened, so that it cannot flood it.
func Shown(s string) string {
	const most = 40
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}
