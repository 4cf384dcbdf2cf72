//go:build flyway

package flyway_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Both programs at once, Flyway with either kind of its lock: all succeed, every
// version is applied once.
//
// Clauses: K-9.1
// Mutation: change the lock's key.
func TestBothAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		second := startPeer(t)
		for _, sessionLock := range []bool{false, true} {
			files := map[string]string{"R__view.sql": "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;"}
			for v := 1; v <= 12; v++ {
				files[fmt.Sprintf("V%d__step.sql", v)] = fmt.Sprintf("CREATE TABLE step%d (id int); SELECT pg_sleep(0.05);", v)
			}
			if sessionLock { // see stand.sessionLock
				files["V99__index.sql"] = "CREATE INDEX CONCURRENTLY step1_idx ON step1 (id);"
			}
			s := b.stand(t, files)
			s.sessionLock = sessionLock
			var both errgroup.Group
			for _, p := range []*peer{b.peer, second} {
				m := s.open(t)
				both.Go(func() error {
					_, err := p.ask(s, "migrate")
					return err
				})
				both.Go(func() error {
					_, err := m.Up(t.Context())
					return err
				})
			}
			if err := both.Wait(); err != nil {
				t.Errorf("session lock %t: %v", sessionLock, err)
			}
			if rows := s.history(t); len(rows) != len(files) {
				t.Errorf("session lock %t: history has %d rows, want %d: %v", sessionLock, len(rows), len(files), rows)
			}
			agree(t, s)
		}
	})
}
