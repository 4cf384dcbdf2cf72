package html

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"
)

// visible escapes what would deceive a reader: control characters, bidi marks
// and other invisible ones. Markup is the template's to escape.
func visible(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if !strings.ContainsFunc(s, unseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unseen(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// grouped sets a decimal number in groups of three, with narrow blanks that no
// country reads as a decimal point. Another text stays as it is.
func grouped(number string) string {
	sign, digits := "", number
	if rest, negative := strings.CutPrefix(number, "-"); negative {
		sign, digits = "\u2212", rest
	}
	if digits == "" || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return visible(number)
	}
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return sign + strings.Join(groups, "\u202f")
}

// money is an amount of minor units with its currency, "" for none.
func money(amount, currency string) string {
	if amount == "" {
		return ""
	}
	return strings.TrimSpace(grouped(amount) + "\u00a0" + visible(currency))
}

// sums adds absolute amounts per currency; it never adds across them.
type sums map[string]*big.Int

func (s sums) add(amount, currency string) {
	n, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		return
	}
	if s[currency] == nil {
		s[currency] = new(big.Int)
	}
	s[currency].Add(s[currency], n.Abs(n))
}

func (s sums) list() []string {
	var out []string
	for _, currency := range slices.Sorted(maps.Keys(s)) {
		if s[currency].Sign() != 0 {
			out = append(out, money(s[currency].String(), currency))
		}
	}
	return out
}

// moment is a time to the millisecond: what lies between two writes is often
// less than a second.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// span is a duration in its largest units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// count is a number with its noun.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(fmt.Sprint(n)) + " " + many
}

// short cuts a text that may be of any length, and shows that it did.
func short(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "\u2026"
}
