package runner

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot counts suspensions in, and nobody can set it.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
