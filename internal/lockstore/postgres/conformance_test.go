package postgres_test

import (
	"fmt"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// capabilities are what this backend declares: the reference of the others.
func capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

// The suite that every backend passes: on 16 as on a session of its own, on 15 as
// behind a pooler. The other tests cross the two.
//
// Clauses: K-1.3, K-2.2, K-2.3, K-2.4, K-2.6, K-2.7, K-2.8, K-2.10, K-3.1, K-3.3, K-3.4, K-3.5, K-11
// Mutation: those of locktest's own test, which breaks a store in one place for
// each clause.
func TestConformance(t *testing.T) {
	t.Parallel()
	for major, as := range map[int]func(postgres.Options) postgres.Options{
		16: func(o postgres.Options) postgres.Options { return o }, 15: postgres.Pooled,
	} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Backend{
				Declared: capabilities(),
				Database: func(t *testing.T) func(t *testing.T) lockstore.Store {
					dbs := pgtest.Migrated(t, major)
					return func(t *testing.T) lockstore.Store {
						opts := options(t, dbs)
						opts.MaxConns = 8
						return open(t, as(opts))
					}
				},
			})
		})
	}
}
