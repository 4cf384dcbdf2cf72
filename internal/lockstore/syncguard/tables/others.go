package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Other is a table on which SyncGuard's operations work, under another name than the
// one that is configured.
type Other struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
	// Lock tells a lock table from one of counters.
	Lock bool `json:"lock"`
}

// Others returns the pairs of other names, in a schema or, with "", in all that the
// search_path leads to: whoever works on them excludes nobody who works on these. A
// copy without a unique key is none, nor is a counter table without locks, nor a name
// of ours in lower-case letters, which Look tells of.
func Others(ctx context.Context, q Querier, names Names, schema string) ([]Other, error) {
	const doing = "look for SyncGuard's tables of other names"
	rows, err := q.Query(ctx, othersQuery, columnNames(lockShape(names)), columnNames(fenceShape()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	other := map[string][]Other{}
	locks, counters, order := map[string]bool{}, map[string]bool{}, []string{}
	var place int64
	var o Other
	_, err = pgx.ForEachRow(rows, []any{&place, &o.Schema, &o.Table, &o.Lock}, func() error {
		if schema != "" && o.Schema != schema {
			return nil
		}
		configured := names.Fence
		if o.Lock {
			configured = names.Lock
		}
		ours := o.Table == configured || o.Table == strings.ToLower(configured)
		if !ours {
			if other[o.Schema] == nil {
				order = append(order, o.Schema)
			}
			other[o.Schema] = append(other[o.Schema], o)
		}
		locks[o.Schema] = locks[o.Schema] || o.Lock && !ours
		counters[o.Schema] = counters[o.Schema] || !o.Lock
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var found []Other
	for _, in := range order {
		if locks[in] && counters[in] {
			found = append(found, other[in]...)
		}
	}
	return found, nil
}

// columnNames are those without which the library's operations fail, the key first.
func columnNames(s shape) []string {
	var names []string
	for _, c := range s.columns {
		if !c.mayMiss {
			names = append(names, c.name)
		}
	}
	return names
}
