package lockstore

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlockctl/dlockctl/internal/plaintext"
)

// The limits of what a caller may ask for. Every edge refuses what lies
// outside them before anything is sent, so the stores never see it.
const (
	// MinTTL is the shortest lease: below it a round trip eats the promise.
	MinTTL = 100 * time.Millisecond
	// MaxTTL is the longest lease: a holder that died must not keep a key for
	// days (K-2.5).
	MaxTTL = 24 * time.Hour
	// MaxKeyBytes bounds a key, an owner and a session id, so that each fits
	// an index row of every backend.
	MaxKeyBytes = 1024
	// MaxReasonBytes bounds the reason of a revoke.
	MaxReasonBytes = 4096
)

// ValidKey refuses a lock key that is empty, too long, not UTF-8 or holds a
// control character. Keys are compared byte by byte: two spellings of one
// letter (NFC, NFD) are two keys. The error wraps [ErrInvalid].
func ValidKey(key string) error { return validName("key", key) }

// ValidOwner refuses an owner by the rules of [ValidKey].
func ValidOwner(owner string) error { return validName("owner", owner) }

// ValidOperator refuses an operator by the rules of [ValidKey] (K-3.3).
func ValidOperator(operator string) error { return validName("operator", operator) }

// LookupKey refuses only what no database holds: a lock that another program
// granted under a key that [ValidKey] would refuse can still be shown, renewed,
// released and revoked.
func LookupKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: key is empty; give one", ErrInvalid)
	}
	return LookupText("key", key)
}

// LookupText refuses what no row of a database can equal: text that is not
// UTF-8 or holds a NUL. Empty means that nothing is looked for, and passes.
func LookupText(what, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%w: %s %s is not text that a database holds; give what the lists print", ErrInvalid, what, plaintext.Shown(text))
	}
	return nil
}

// ValidSessionID refuses a session id by the rules of [ValidKey]. The error
// shows the id masked, for it is a secret (K-2.12).
func ValidSessionID(id SessionID) error {
	if err := validName("session id", string(id)); err != nil {
		if id == "" {
			return err
		}
		return fmt.Errorf("%w: session id %q is malformed; give the id that acquire or session create printed", ErrInvalid, id.Masked())
	}
	return nil
}

// ValidReason refuses a blank or over-long reason (K-3.3). Line breaks and
// tabs are allowed, for an operator may paste a note; other control characters
// are not.
func ValidReason(reason string) error {
	return invalid(plaintext.Note("reason", reason, MaxReasonBytes))
}

// ValidTTL refuses a lease below [MinTTL] or above [MaxTTL], before any
// arithmetic is done with it (K-2.5).
func ValidTTL(ttl time.Duration) error {
	switch {
	case ttl < MinTTL:
		return fmt.Errorf("%w: ttl %s is below the minimum of %s; give a longer one, such as 30s", ErrInvalid, ttl, MinTTL)
	case ttl > MaxTTL:
		return fmt.Errorf("%w: ttl %s is above the maximum of %s; give a shorter one and renew it", ErrInvalid, ttl, MaxTTL)
	}
	return nil
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

// lockIDHash is what SyncGuard's telemetry makes of a lock id.
var lockIDHash = regexp.MustCompile(`^[0-9a-f]{24}$`)

// ValidLockIDHash refuses what is no hash of a lock id. It does not repeat what was
// given: that may be the lock id itself, which is a secret.
func ValidLockIDHash(hash string) error {
	if !lockIDHash.MatchString(hash) {
		return fmt.Errorf("%w: a lock id's hash has 24 digits of 0-9 and a-f, and what was given, of %d characters, is none; give the lock_id_hash that lock show prints, never the lock id",
			ErrInvalid, utf8.RuneCountInString(hash))
	}
	return nil
}

// ByToken refuses a revoke that names its grant otherwise than by a valid token: a
// backend without lock ids knows no other name of it.
func ByToken(params RevokeParams) error {
	if params.LockIDHash != "" {
		return fmt.Errorf("revoke lock %q by the hash of its lock id: %w: its grants have none; give the token", params.Key, ErrUnsupported)
	}
	return ValidToken(params.Token)
}

// ParseToken reads a fencing token as acquire prints it: decimal digits and
// nothing else. The error wraps [ErrInvalid].
func ParseToken(text string) (Token, error) {
	if text == "" || strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) >= 0 {
		return 0, fmt.Errorf("%w: token %s is not a decimal number; give the token that acquire printed", ErrInvalid, plaintext.Shown(text))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: token %s is above 2^53 = %d; no grant has it, give the token that acquire printed", ErrInvalid, plaintext.Shown(text), MaxToken)
	}
	return Token(n), ValidToken(Token(n))
}

func validName(what, s string) error { return invalid(plaintext.Name(what, s, MaxKeyBytes)) }

// invalid makes a refusal an [ErrInvalid].
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}
