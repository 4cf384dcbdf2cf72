package paystore

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/plaintext"
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
		return "", fmt.Errorf("%w: %s %s is not a UUID; give one such as 00000000-0000-4000-8000-000000000001", ErrInvalid, what, plaintext.Shown(text))
	}
	return id.String(), nil
}

// LockKey is the key of the lock under which an account's payouts are worked on
// (K-4.2).
func LockKey(accountID string) string { return "account:" + accountID }

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
		return fmt.Errorf("%w: currency %s is not three capital letters; give one such as EUR", ErrInvalid, plaintext.Shown(currency))
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
	return invalid(plaintext.Note("reason", reason, MaxReasonBytes))
}

func validName(what, s string) error { return invalid(plaintext.Name(what, s, MaxNameBytes)) }

// invalid makes a refusal an [ErrInvalid].
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}
