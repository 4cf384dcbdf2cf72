package lockapi

import (
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// TokenHeader carries the fencing token: presented by renew and release, and
// answered by whatever grants (C1 1.6).
const TokenHeader = "X-Fencing-Token"

// IdempotencyHeader makes the creation of a session safe to repeat.
const IdempotencyHeader = "Idempotency-Key"

// Time is a timestamp of lockdb on the wire: RFC 3339 in UTC with microseconds,
// "infinity", or "" for none.
type Time string

const layout = "2006-01-02T15:04:05.000000Z"

// NewTime writes a time.
func NewTime(t lockstore.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.String())
}

// Value reads a time.
func (t Time) Value() (lockstore.Time, error) {
	switch t {
	case "":
		return lockstore.Time{}, nil
	case "infinity":
		return lockstore.Time{Infinite: true}, nil
	}
	parsed, err := time.Parse(layout, string(t))
	if err != nil {
		return lockstore.Time{}, fmt.Errorf("read the time %q: %w", string(t), err)
	}
	return lockstore.Time{Time: parsed}, nil
}

// Token is a fencing token with its string twin. Embed it.
type Token struct {
	Token    lockstore.Token `json:"token" doc:"Fencing token: pass it with every write that the lock protects"`
	TokenStr string          `json:"token_str" doc:"The same as text, for readers whose numbers end at 2^53"`
}

// NewToken pairs the two forms.
func NewToken(t lockstore.Token) Token { return Token{t, t.String()} }

// Duration reads a count of milliseconds. It refuses one that a duration cannot
// hold, before any arithmetic (K-2.5); the error wraps lockstore.ErrInvalid.
func Duration(what string, ms int64) (time.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms < 0 || ms > most {
		return 0, fmt.Errorf("%w: %s %d is out of range; give milliseconds, such as 30000", lockstore.ErrInvalid, what, ms)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Milliseconds writes a duration, rounded down: what is left is never overstated.
func Milliseconds(d time.Duration) int64 { return d.Milliseconds() }
