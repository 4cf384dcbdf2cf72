//go:build !linux

package runner

import "time"

// sinceBoot knows nothing here: the wall clock tells of suspensions.
func sinceBoot() time.Duration { return 0 }
