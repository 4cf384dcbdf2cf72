package syncguard

import (
	"math"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// milliseconds rounds a lease up: it is never shorter than what was asked for.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func timeOf(ms int64) lockstore.Time { return lockstore.Time{Time: time.UnixMilli(ms).UTC()} }

// between is the time from one moment to another. It does not overflow: the library
// stores what it is given, and a row may end 300,000 years ahead.
func between(fromMs, toMs int64) time.Duration {
	switch d := float64(toMs) - float64(fromMs); {
	case d >= math.MaxInt64/2/float64(time.Millisecond):
		return math.MaxInt64 / 2
	case d <= math.MinInt64/2/float64(time.Millisecond):
		return math.MinInt64 / 2
	}
	return time.Duration(toMs-fromMs) * time.Millisecond
}
