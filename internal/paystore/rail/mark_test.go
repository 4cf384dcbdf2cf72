package rail_test

import (
	"errors"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// The mark raised by hand refuses the holder who was revoked, at once; a rerun finds
// it raised, and never lowers it.
//
// Clauses: K-3.2, K-4.1
// Mutation: return raised = true when the mark stood already.
func TestRaiseMark(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		for _, step := range []struct {
			to, from paystore.Token
			raised   bool
		}{{3, 0, true}, {9, 3, true}, {9, 9, false}, {4, 9, false}} {
			from, raised, err := p.RaiseMark(t.Context(), account, step.to)
			if err != nil || from != step.from || raised != step.raised {
				t.Errorf("raise to %s: from %s, raised %t, %v; want %s, %t", step.to, from, raised, err, step.from, step.raised)
			}
		}
		if _, err := p.Submit(t.Context(), id, 5); !fencedBy(err, paystore.ResourceRail, 5, 9) || b.rail.calls() != 0 {
			t.Errorf("the revoked holder: %v, %d calls", err, b.rail.calls())
		}
		if b.mark(t, another) != 0 {
			t.Errorf("another account's mark is %s", b.mark(t, another))
		}
		b.exec(t, `UPDATE fence_floor SET floor_token = 20 WHERE point = 'rail'`)
		if from, raised, err := p.RaiseMark(t.Context(), account, 15); err != nil || from != 20 || raised {
			t.Errorf("below the floor: from %s, raised %t, %v", from, raised, err)
		}
		if _, _, err := p.RaiseMark(t.Context(), id, 30); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("no account: %v", err)
		}
		if _, _, err := p.RaiseMark(t.Context(), account, 0); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("no token: %v", err)
		}
		if _, _, err := p.RaiseMark(t.Context(), "a", 1); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("no id: %v", err)
		}
	})
}
