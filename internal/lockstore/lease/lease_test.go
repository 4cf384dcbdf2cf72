package lease_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/dlockctl/dlockctl/internal/lockstore/lease"
)

// suspended is t as a machine reads its clocks that was suspended for d before: the
// wall clock shows it, the monotonic one does not. Nothing but a suspended machine,
// or the layout of time.Time, can make such a reading.
func suspended(t time.Time, d time.Duration) time.Time {
	t = t.Add(d)
	monotonic := (*int64)(unsafe.Add(unsafe.Pointer(&t), unsafe.Sizeof(uint64(0))))
	*monotonic -= int64(d)
	return t
}

// What has passed is what the clock says that saw more of it.
//
// Clauses: K-2.10
// Mutation: return now.Sub(then), or the other of the two, from Passed.
func TestPassed(t *testing.T) {
	t.Parallel()
	then := time.Now()
	for name, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"both clocks agree":       {then.Add(time.Minute), time.Minute},
		"the machine slept":       {suspended(then.Add(time.Second), time.Hour), time.Hour + time.Second},
		"the wall clock set back": {suspended(then.Add(time.Minute), -time.Hour), time.Minute},
		"no monotonic reading":    {then.Add(time.Minute).Round(0), time.Minute},
	} {
		if got := lease.Passed(then, c.now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A promise is asked for again at a third of it, and ends when all of it has passed
// since before it was asked for.
//
// Clauses: K-2.10
// Mutation: count from the answer, or renew at the whole of it.
func TestPromise(t *testing.T) {
	t.Parallel()
	sent := time.Now()
	p := lease.Promise{Sent: sent, TTL: 30 * time.Second}
	for after, want := range map[time.Duration][2]time.Duration{
		0:                {30 * time.Second, 10 * time.Second},
		10 * time.Second: {20 * time.Second, 0},
		31 * time.Second: {-time.Second, -21 * time.Second},
	} {
		now := sent.Add(after)
		if left, renew := p.Left(now), p.RenewIn(now); left != want[0] || renew != want[1] {
			t.Errorf("after %s: %s left, renew in %s, want %v", after, left, renew, want)
		}
	}
	shorter := lease.Promise{Sent: sent.Add(time.Second), TTL: time.Second}
	if got := lease.Longer(shorter, p, sent.Add(time.Second)); got != p {
		t.Errorf("a renewal of %s cut a promise of %s short", shorter.TTL, p.TTL)
	}
	if got := lease.Longer(shorter, p, suspended(sent, 32*time.Second)); got.Left(suspended(sent, 32*time.Second)) > 0 {
		t.Errorf("a machine that slept trusts %+v", got)
	}
}
