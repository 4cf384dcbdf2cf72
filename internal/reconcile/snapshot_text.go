package reconcile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sealedSnapshot is pg_current_snapshot() taken apart: a transaction below xmax that
// is not among those in progress had committed, or had rolled back and left nothing.
type sealedSnapshot struct {
	xmax int64
	xip  []int64
}

func parseSnapshot(text string) (sealedSnapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return sealedSnapshot{}, fmt.Errorf("read the sealed snapshot: %q is not xmin:xmax:xip", text)
	}
	var s sealedSnapshot
	var err error
	if s.xmax, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return sealedSnapshot{}, fmt.Errorf("read the sealed snapshot: %w", err)
	}
	s.xip = []int64{}
	for _, running := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		xid, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return sealedSnapshot{}, fmt.Errorf("read the sealed snapshot: %w", err)
		}
		s.xip = append(s.xip, xid)
	}
	return s, nil
}

func (s sealedSnapshot) args() pgx.NamedArgs { return pgx.NamedArgs{"xmax": s.xmax, "xip": s.xip} }
