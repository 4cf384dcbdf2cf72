package instance

import (
	"context"
	"fmt"
)

// identify names a database among all: the instance, which every physical copy keeps,
// and the database in it. Whoever reads it learns neither an address nor a name.
const identify = `
SELECT c.system_identifier || '/' || d.oid
  FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()`

// Identity names the database that q is connected to. Two connections with one identity
// are connected to one database, or to physical copies of it.
func Identity(ctx context.Context, q Querier) (string, error) {
	var id string
	if err := q.QueryRow(ctx, identify).Scan(&id); err != nil {
		return "", fmt.Errorf("read which database this is: %w", err)
	}
	return id, nil
}
