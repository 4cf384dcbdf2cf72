package payresource

import "github.com/jackc/pgx/v5/pgxpool"

// Stat is how the connections to paydb stand, nil while it is not open.
func (s *Service) Stat() *pgxpool.Stat { return s.link.Stat() }
