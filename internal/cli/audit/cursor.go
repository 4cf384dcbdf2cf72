package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// cursor is how far an export has come: each line carries one, and --after takes
// it up again. Its text is r<id>.o<id>.
type cursor struct{ revocation, record int64 }

func (c cursor) String() string { return fmt.Sprintf("r%d.o%d", c.revocation, c.record) }

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	wrong := app.UsageError("give the cursor of the last line that was kept, such as r12.o3", "--after %q is no cursor", text)
	left, right, found := strings.Cut(text, ".")
	if !found || !strings.HasPrefix(left, "r") || !strings.HasPrefix(right, "o") {
		return cursor{}, wrong
	}
	var c cursor
	for _, part := range []struct {
		digits string
		id     *int64
	}{{left[1:], &c.revocation}, {right[1:], &c.record}} {
		id, err := strconv.ParseUint(part.digits, 10, 63)
		if err != nil {
			return cursor{}, wrong
		}
		*part.id = int64(id)
	}
	return c, nil
}

// settleAfter is how long a missing audit id is waited for. Ids are drawn before
// they are committed, so a lower one may appear after a higher one; a revoke's
// transaction is over in seconds, or has left a gap for good.
const settleAfter = 10 * time.Minute

// settler finds which revocations are new. It keeps the cursor below an id that
// may still appear: whoever resumes there may see a row twice, but misses none.
type settler struct {
	settled  int64
	settling bool
	seen     map[int64]bool
	now      func() time.Time
}

// begin starts a pass over all rows above the settled id.
func (s *settler) begin() { s.settling = true }

// take tells each of rows, which come by id, that was not taken before; the
// settled id is then the one to resume behind.
func (s *settler) take(rows []lockstore.Revocation, each func(row lockstore.Revocation) error) error {
	for _, row := range rows {
		known := s.seen[row.ID]
		if s.settling && (row.ID == s.settled+1 || s.now().Sub(row.RevokedAt.Time) > settleAfter) {
			s.settled = row.ID
			delete(s.seen, row.ID)
		} else {
			s.settling = false
			s.seen[row.ID] = true
		}
		if known {
			continue
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}
