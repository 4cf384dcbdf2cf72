package runner

import "time"

// Instant is one look at the clocks of this machine, each counted from a moment
// of its own.
type Instant struct {
	// Mono stands still while the machine is suspended; Wall may be set; Boot
	// counts on through a suspension, and is 0 where there is no such clock.
	Mono, Wall, Boot time.Duration
}

// Since is the time passed since an earlier look, by whichever clock says most:
// a suspended machine stops one, and somebody may set another (K-2.10).
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Mono-earlier.Mono, i.Wall-earlier.Wall, i.Boot-earlier.Boot)
}

// after is the instant d later on every clock.
func (i Instant) after(d time.Duration) Instant {
	later := Instant{Mono: i.Mono + d, Wall: i.Wall + d}
	if i.Boot != 0 {
		later.Boot = i.Boot + d
	}
	return later
}

// Clock looks at the clocks.
type Clock interface{ Now() Instant }

// machine is the machine's own clocks.
type machine struct{ start time.Time }

// NewClock returns the clocks of this machine.
func NewClock() Clock { return machine{time.Now()} }

// Now looks at all of them.
func (m machine) Now() Instant {
	now := time.Now()
	return Instant{Mono: now.Sub(m.start), Wall: time.Duration(now.UnixNano()), Boot: sinceBoot()}
}
