package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var pulseQuery = query("pulse", "since")

// Pulse reads how busy lockdb is. See [lockstore.Meter].
func (s *Store) Pulse(ctx context.Context, since lockstore.Token) (lockstore.Pulse, error) {
	var p lockstore.Pulse
	err := s.read(ctx, "read how busy lockdb is", pulseQuery, []any{int64(since)}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error { return rows.Scan(&p.Last, &p.Grants, &p.Waiting) })
	})
	return p, err
}
