package postgres

import (
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// timeTo scans a timestamptz into t, infinity included, which time.Time cannot
// hold (K-2.5).
func timeTo(t *lockstore.Time) *timeScanner { return (*timeScanner)(t) }

type timeScanner lockstore.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t *timeScanner) ScanTimestamptz(v pgtype.Timestamptz) error {
	// -infinity, which only a row written by hand can hold, is no time at all.
	*t = timeScanner{Time: v.Time.UTC(), Infinite: v.InfinityModifier == pgtype.Infinity}
	return nil
}

// secondsTo turns seconds, NULL for ever, into a duration that does not
// overflow: a row written by hand may lie 300,000 years ahead.
func secondsTo(seconds *float64) time.Duration {
	switch {
	case seconds == nil, *seconds >= math.MaxInt64/float64(time.Second):
		return math.MaxInt64
	case *seconds <= math.MinInt64/float64(time.Second):
		return math.MinInt64
	}
	return time.Duration(*seconds * float64(time.Second))
}

// sessionUUID checks what lockdb can only hold as a UUID. On the hot path its
// bytes are passed, [16]byte: pgx takes a uuid.UUID the long way, through
// database/sql's interfaces.
func sessionUUID(id lockstore.SessionID) (uuid.UUID, error) {
	parsed, err := uuid.Parse(string(id))
	if err != nil || len(id) != 36 {
		// The id is a secret, even a mistyped one (K-2.12).
		return uuid.UUID{}, fmt.Errorf("session id %s is not a UUID: %w", id.Masked(), lockstore.ErrInvalid)
	}
	return parsed, nil
}

// null is NULL for the zero value: a filter that is not set.
func null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
