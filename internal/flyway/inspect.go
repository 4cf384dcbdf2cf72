package flyway

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// FindPooler returns a *PoolerError when the statements of conn reach different
// backends (K-12.3), nil when they do not, and any other error when that could
// not be found out. Conn must not be in a transaction; where a pooler is possible, a
// second connection is made by config for a moment.
func FindPooler(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) error {
	return (&Migrator{conn: conn, config: config}).refusePooler(ctx)
}

// Compare sets the files against the history that q reads, as Validate does. It
// returns the rows in force too, as Applied does. Schema "" means the connection's
// current_schema.
func Compare(ctx context.Context, q Querier, catalogue *Catalogue, schema string) ([]Row, []Finding, error) {
	schema, err := schemaOf(ctx, q, schema)
	if err != nil {
		return nil, nil, err
	}
	rows, err := table{schema, TableName}.rows(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return fold(rows), analyse(catalogue, rows).findings(), nil
}
