package audit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/audit"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func rows(at time.Time, ids ...int64) []lockstore.Revocation {
	var found []lockstore.Revocation
	for _, id := range ids {
		found = append(found, lockstore.Revocation{ID: id, RevokedAt: lockstore.Time{Time: at}})
	}
	return found
}

// Ids appear out of order, for they are drawn before they are committed: each
// row is told once, and the cursor stays below one that may still come.
//
// Clauses: K-3.6
// Mutation: settle at every row, or forget which were seen.
func TestSettler(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	old := now.Add(-time.Hour)
	s := audit.NewSettler(0, func() time.Time { return now })
	for _, pass := range []struct {
		name    string
		pages   [][]lockstore.Revocation
		fresh   []int64
		settled int64
	}{
		{"in order", [][]lockstore.Revocation{rows(now, 1, 2)}, []int64{1, 2}, 2},
		{"3 is still under way", [][]lockstore.Revocation{rows(now, 4)}, []int64{4}, 2},
		{"nothing new", [][]lockstore.Revocation{rows(now, 4)}, nil, 2},
		{"a second page does not settle past a gap in the first", [][]lockstore.Revocation{rows(now, 4), rows(old, 5)}, []int64{5}, 2},
		{"3 came", [][]lockstore.Revocation{rows(now, 3, 4, 5)}, []int64{3}, 5},
		{"6 will never come: 7 is old", [][]lockstore.Revocation{rows(old, 7), rows(now, 8)}, []int64{7, 8}, 8},
	} {
		fresh, settled := s.Pass(pass.pages...)
		if diff := cmp.Diff(pass.fresh, fresh); diff != "" || settled != pass.settled {
			t.Errorf("%s: settled %d, want %d; fresh (-want +got):\n%s", pass.name, settled, pass.settled, diff)
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "r0.o0", "r12.o3", "r9223372036854775807.o1", "r1", "o1.r1", "r-1.o1", "r1.o1.x", "r+1.o1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown, err := audit.ParseCursor(text)
		if err != nil {
			return
		}
		if again, err := audit.ParseCursor(shown); err != nil || again != shown {
			t.Errorf("%q reads as %q, and that as %q, %v", text, shown, again, err)
		}
	})
}
