package lockserver

import "github.com/jackc/pgx/v5/pgxpool"

// Stat is how the connections to lockdb stand, nil while it is not open, and for a
// backend without a pool of them.
func (s *Service) Stat() *pgxpool.Stat {
	store, err := s.link.store()
	if err != nil {
		return nil
	}
	pooled, is := store.(interface{ Stat() *pgxpool.Stat })
	if !is {
		return nil
	}
	return pooled.Stat()
}
