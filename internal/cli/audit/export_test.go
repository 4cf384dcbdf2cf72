package audit

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// ParseCursor opens the cursor's parser to its test.
func ParseCursor(text string) (string, error) {
	c, err := parseCursor(text)
	return c.String(), err
}

// Settler opens the book of ids that may still appear.
type Settler struct{ settler }

// NewSettler starts behind an id, on a clock.
func NewSettler(settled int64, now func() time.Time) *Settler {
	return &Settler{settler{settled: settled, seen: map[int64]bool{}, now: now}}
}

// Pass takes the pages of one pass and returns the ids that were new, and the id
// to resume behind.
func (s *Settler) Pass(pages ...[]lockstore.Revocation) (fresh []int64, settled int64) {
	s.begin()
	for _, page := range pages {
		_ = s.take(page, func(row lockstore.Revocation) error {
			fresh = append(fresh, row.ID)
			return nil
		})
	}
	return fresh, s.settled
}
