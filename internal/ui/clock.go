package ui

import (
	"fmt"
	"time"
)

// Left says how much of a lease remains, as the database counted it.
func Left(d time.Duration) string {
	if d <= 0 {
		return "lapsed " + span(-d) + " ago"
	}
	return span(d) + " left"
}

// Ago says how long something has been, as in "5m ago".
func Ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

// span writes a duration in its two largest units: 350ms, 12s, 5m10s, 3h2m,
// 4d3h.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "m")
	default:
		return two(d, day, "d", time.Hour, "h")
	}
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := fmt.Sprintf("%d%s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		s += fmt.Sprintf("%d%s", rest, smallName)
	}
	return s
}
