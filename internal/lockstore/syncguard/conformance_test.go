package syncguard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// capabilities are what this backend declares: neither sessions nor owners, fences
// per key, a secret lock id, a second of tolerance, another until a row is pruned.
func capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: "syncguard", OwnTTL: true, Ownerless: true, LockIDs: true, Tolerance: time.Second, PruneAfter: 2 * time.Second}
}

// The suite that every backend passes, with what is declared asked for and not left
// out.
//
// Clauses: K-10.2
// Mutation: declare a tolerance of zero, or take the live check out of Renew,
// Release or Acquire.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Backend{
				Declared: capabilities(),
				Database: func(t *testing.T) func(t *testing.T) lockstore.Store {
					db := database(t, major)
					return func(t *testing.T) lockstore.Store {
						opts := options(t, db)
						opts.MaxConns = 8
						return open(t, opts)
					}
				},
			})
		})
	}
}
