package paystore

import "github.com/jackc/pgx/v5/pgxpool"

// Stat is how the connections to paydb stand.
func (d *DB) Stat() *pgxpool.Stat { return d.pool.Stat() }
