package paystore

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The limits of what a caller may ask for; every edge refuses what lies outside
// before anything is sent.
const (
	// MaxNameBytes bounds a holder, an operator and an idempotency key, so that
	// each fits an index row.
	MaxNameBytes = 1024
	// MaxReasonBytes bounds a reason.
	MaxReasonBytes = 4096
)

// ParseID reads the id of an account or a payout and returns it in its one form,
// lower case with dashes. what names it in the error, which wraps [ErrInvalid].
func ParseID(what, text string) (string, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return "", fmt.Errorf("%w: %s %s is not a UUID; give one such as 00000000-0000-4000-8000-000000000001", ErrInvalid, what, shown(text))
	}
	return id.String(), nil
}

// ValidToken refuses a fencing token outside 1 to 2^53 (K-1.6).
func ValidToken(token Token) error {
	switch {
	case token < 1:
		return fmt.Errorf("%w: token %d is below 1; give the token that acquire printed", ErrInvalid, token)
	case token > MaxToken:
		return fmt.Errorf("%w: token %d is above 2^53 = %d; no grant has it, give the token that acquire printed", ErrInvalid, token, MaxToken)
	}
	return nil
}

// ValidAmount refuses an amount that is not above zero (K-5.4).
func ValidAmount(amount Minor) error {
	if amount <= 0 {
		return fmt.Errorf("%w: amount %d is not above zero; give minor units, such as 1999 for 19.99", ErrInvalid, amount)
	}
	return nil
}

// ValidCurrency refuses what is not three capital letters.
func ValidCurrency(currency string) error {
	if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return fmt.Errorf("%w: currency %s is not three capital letters; give one such as EUR", ErrInvalid, shown(currency))
	}
	return nil
}

// ValidIdempotencyKey refuses a key that is empty, blank, too long or holds a
// control character.
func ValidIdempotencyKey(key string) error { return validName("idempotency key", key) }

// ValidHolder refuses a holder by the rules of [ValidIdempotencyKey].
func ValidHolder(holder string) error { return validName("holder", holder) }

// ValidOperator refuses an operator by the rules of [ValidIdempotencyKey].
func ValidOperator(operator string) error { return validName("operator", operator) }

// ValidReason refuses a blank or over-long reason. Line breaks and tabs are
// allowed, for an operator may paste a note.
func ValidReason(reason string) error {
	if err := validText("reason", reason, MaxReasonBytes, "\n\t"); err != nil {
		return err
	}
	if strings.IndexFunc(reason, visible) < 0 {
		return fmt.Errorf("%w: reason is blank; say why, the record keeps it", ErrInvalid)
	}
	return nil
}

func validName(what, s string) error {
	if err := validText(what, s, MaxNameBytes, ""); err != nil {
		return err
	}
	if strings.IndexFunc(s, visible) < 0 {
		return fmt.Errorf("%w: %s %s is blank; give one that can be seen", ErrInvalid, what, shown(s))
	}
	return nil
}

func validText(what, s string, limit int, allowed string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty; give one", ErrInvalid, what)
	case len(s) > limit:
		return fmt.Errorf("%w: %s %s is %d bytes long; shorten it to %d", ErrInvalid, what, shown(s), len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %s is not UTF-8; re-encode it", ErrInvalid, what, shown(s))
	}
	for i, r := range s {
		if unicode.IsControl(r) && !strings.ContainsRune(allowed, r) {
			return fmt.Errorf("%w: %s %s has the control character U+%04X at byte %d; remove it", ErrInvalid, what, shown(s), r, i)
		}
	}
	return nil
}

// visible tells whether a reader would see anything of r.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// shown quotes a refused value for a message: escaped, so that it cannot play
// with the terminal, and shortened, so that it cannot flood it.
func shown(s string) string {
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
