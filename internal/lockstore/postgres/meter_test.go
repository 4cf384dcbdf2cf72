package postgres_test

import (
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// The pulse counts grants and draws, and a try that gets nothing draws as well.
//
// Mutation: count from >= :since.
func TestPulse(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		pulse := func(since lockstore.Token) lockstore.Pulse {
			p, err := b.store.Pulse(t.Context(), since)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		if p := pulse(0); p != (lockstore.Pulse{}) {
			t.Fatalf("at the beginning %+v", p)
		}
		holder := b.session(t, "holder")
		var last lockstore.Token
		for _, key := range []string{"a", "b", "c"} {
			last = b.acquire(t, key, "holder", holder, time.Minute).Token
		}
		if p := pulse(0); p.Grants != 3 || p.Last != last {
			t.Fatalf("after three grants %+v; the last token is %s", p, last)
		}
		_, err := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "a", Owner: "other", Session: b.session(t, "other"), TTL: time.Minute})
		if p := pulse(last); err == nil || p.Grants != 0 || p.Last <= last {
			t.Errorf("after a contended try %+v, %v", p, err)
		}
	})
}
