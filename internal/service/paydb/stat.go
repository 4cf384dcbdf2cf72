package paydb

import "github.com/jackc/pgx/v5/pgxpool"

// Stat is how the connections to paydb stand, nil while it is not open.
func (l *Link) Stat() *pgxpool.Stat {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db == nil {
		return nil
	}
	return l.db.Stat()
}
