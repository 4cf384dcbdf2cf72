package engine_test

import (
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// seed decides what each client of a history does.
const seed = 7206

func rules() locktest.Rules { return locktest.RulesOf(capabilities()) }

func capabilities() lockstore.Capabilities { return (*postgres.Store)(nil).Capabilities() }

// What 16 clients are told by one engine, and what they are told by two on one
// lockdb, is what a fenced mutex could have told them: through takeovers, re-entry,
// revocation, and batches whose answer was lost before and after COMMIT.
//
// Clauses: K-1.3, K-1.4, K-2.2, K-2.4, K-2.6, K-2.7, K-2.9
// Mutation: answer from a batch before its COMMIT, or retry what is unknown and tell
// the token that is seen.
func TestEngineHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	for name, engines := range map[string]int{"one engine": 1, "two engines": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbs := pgtest.Migrated(t, 16)
			least := locktest.Stats{Clients: 16, Keys: 8, Ops: 8_000, Takeovers: 25, ReEntries: 30, Revoked: 10, Unknown: 10}
			var clients []locktest.Client
			for range engines {
				cutter := pgtest.NewCutter(t, dbs.Lock.Server)
				opts := options(t, dbs)
				opts.Config = cutter.Config(opts.Config)
				store := open(t, opts)
				shared := throughEngine{Store: store, engine: start(t, store)}
				cut := func(where locktest.Cut) { cutter.Cut(pgtest.Cut(where)) }
				for range least.Clients / engines {
					clients = append(clients, locktest.Client{Store: shared, Cut: cut})
					cut = nil // one of them is enough
				}
			}
			workload := locktest.Workload{Clients: clients, Keys: least.Keys, Seed: seed, Least: least, Limit: 10 * time.Minute}
			history, err := workload.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			locktest.Require(t, history, rules(), least)
		})
	}
}
