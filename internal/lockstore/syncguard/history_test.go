package syncguard_test

import (
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// clients are independent ones, as other processes would be, each with a connection
// of its own; every other pair is cut off now and then.
func clients(t *testing.T, n int, b bundle) []locktest.Client {
	t.Helper()
	made := make([]locktest.Client, n)
	for i := range made {
		opts := options(t, b.db)
		opts.MaxConns = 1
		if i%4 < 2 {
			made[i] = locktest.Client{Store: open(t, opts)}
			continue
		}
		c := pgtest.NewCutter(t, b.db.Server)
		opts.Config = c.Config(opts.Config)
		made[i] = locktest.Client{Store: open(t, opts), Cut: func(where locktest.Cut) { c.Cut(pgtest.Cut(where)) }}
	}
	return made
}

// What 16 clients are told of 100 keys is what they could be told one after the other
// by a fenced mutex with a second of tolerance: through takeovers from holders that
// died, revocation, and answers lost before and after COMMIT.
//
// Clauses: K-1.3, K-1.4, K-2.6, K-2.7, K-2.9, K-2.10, K-3.1, K-10.2
// Mutation: take "AND fence = :fence" out of queries/own.sql.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		least := locktest.Stats{Clients: 16, Keys: 100, Ops: 4_000, Takeovers: 50, Revoked: 10, Unknown: 20}
		history, err := locktest.Workload{Clients: clients(t, least.Clients, b), Keys: least.Keys, Seed: 1002, Least: least, Limit: 8 * time.Minute}.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		locktest.Require(t, history, locktest.RulesOf((*syncguard.Store)(nil).Capabilities()), least)
	})
}
