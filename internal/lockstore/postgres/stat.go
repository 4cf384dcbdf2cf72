package postgres

import "github.com/jackc/pgx/v5/pgxpool"

// Stat is how the connections to lockdb stand.
func (s *Store) Stat() *pgxpool.Stat { return s.pool.Stat() }
