package rewind_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// countingRail pays whatever it is asked to, as often as it is asked, and counts. A
// rail that told duplicates apart would hide the fault. No restore reaches it.
type countingRail struct {
	mu   sync.Mutex
	paid map[string]int
}

func newRail() *countingRail { return &countingRail{paid: map[string]int{}} }

func (r *countingRail) Submit(_ context.Context, req rail.Request) (rail.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paid[req.Key]++
	return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "rail-" + req.Key}, nil
}

func (r *countingRail) Status(_ context.Context, key string) (rail.Answer, error) {
	if r.count(key) == 0 {
		return rail.Answer{Outcome: rail.NotFound}, nil
	}
	return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "rail-" + key}, nil
}

func (r *countingRail) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paid[key]
}

func (r *countingRail) fork() *countingRail {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &countingRail{paid: maps.Clone(r.paid)}
}

// once fails for each payment that was made more than once.
func (r *countingRail) once(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, times := range r.paid {
		if times != 1 {
			t.Errorf("the rail paid %s %d times", key, times)
		}
	}
}
