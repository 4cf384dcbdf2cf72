package tables

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Twin is a copy of one of the tables that another one hides: a client whose
// search_path is another works on it, and the two exclude nobody.
type Twin struct {
	Table string
	// Used and Hidden are the schemas of the copy in use here and of this one.
	Used, Hidden string
}

// Twins returns the copies that the search_path leads to and does not reach.
func Twins(ctx context.Context, q Querier, names Names) ([]Twin, error) {
	rows, err := q.Query(ctx, twinsQuery, names.Lock, names.Fence)
	if err != nil {
		return nil, fmt.Errorf("look for copies of SyncGuard's tables: %w", err)
	}
	var twins []Twin
	used := map[string]string{}
	var place int64
	var schema, table string
	_, err = pgx.ForEachRow(rows, []any{&place, &schema, &table}, func() error {
		if in, there := used[table]; there {
			twins = append(twins, Twin{Table: table, Used: in, Hidden: schema})
		} else {
			used[table] = schema
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for copies of SyncGuard's tables: %w", err)
	}
	return twins, nil
}
