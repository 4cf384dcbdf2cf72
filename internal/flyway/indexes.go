package flyway

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// invalidIndexes returns those indexes, quoted and with their schema, that the
// file works on CONCURRENTLY and that are not valid.
func (m *Migrator) invalidIndexes(ctx context.Context, mig *Migration) ([]string, error) {
	var names []string
	for _, s := range mig.statements {
		if name := s.index(); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	const sql = `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_index i
	JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE NOT i.indisvalid AND c.relname = ANY ($1) ORDER BY 1`
	rows, err := m.conn.Query(ctx, sql, names)
	if err != nil {
		return nil, fmt.Errorf("look for invalid indexes: %w", err)
	}
	invalid, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for invalid indexes: %w", err)
	}
	return invalid, nil
}

// checkIndexes fails when the file succeeded over an invalid index: CREATE INDEX
// CONCURRENTLY IF NOT EXISTS is content with the ruin of an earlier attempt.
func (m *Migrator) checkIndexes(ctx context.Context, mig *Migration) error {
	invalid, err := m.invalidIndexes(ctx, mig)
	if err != nil {
		return err
	}
	if len(invalid) > 0 {
		return fmt.Errorf("index %s exists but is not valid", strings.Join(invalid, ", "))
	}
	return nil
}
