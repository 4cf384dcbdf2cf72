package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// seed decides what each client of a history does.
const seed = 7201

// soak is how long the random tests go on, instead of ending when they have
// seen enough: DLOCKCTL_SOAK=10m.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("DLOCKCTL_SOAK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("DLOCKCTL_SOAK: %v", err)
	}
	return d
}

// over tells, as often as it is asked, whether so much time has passed since now.
func over(d time.Duration) func() bool {
	start := time.Now()
	return func() bool { return time.Since(start) >= d }
}

// clients are independent ones, as other processes would be, each with a
// connection of its own; every other pair is cut off now and then, and every other one
// works as behind a pooler.
func clients(t *testing.T, n int, server pgtest.Server, opts postgres.Options) []locktest.Client {
	t.Helper()
	opts.MaxConns = 1
	made := make([]locktest.Client, n)
	for i := range made {
		own := opts
		if i%2 == 1 {
			own = postgres.Pooled(opts)
		}
		if i%4 >= 2 {
			c := pgtest.NewCutter(t, server)
			own.Config = c.Config(own.Config)
			made[i] = locktest.Client{Store: open(t, own), Cut: func(where locktest.Cut) { c.Cut(pgtest.Cut(where)) }}
			continue
		}
		made[i] = locktest.Client{Store: open(t, own)}
	}
	return made
}

// What 16 clients are told of 8 keys is what they could be told one after the
// other by a fenced mutex: through takeovers from holders that paused or died,
// re-entry, revocation, and answers lost before and after COMMIT.
//
// Clauses: K-1.3, K-1.4, K-2.2, K-2.6, K-2.7, K-2.9, K-2.10, K-3.1
// Mutation: any row of TestControls, which feed the same checker.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		least := locktest.Stats{Clients: 16, Keys: 8, Ops: 20_000, Takeovers: 200, ReEntries: 50, Revoked: 20, Unknown: 50}
		workload := locktest.Workload{
			Clients: clients(t, least.Clients, b.dbs.Lock.Server, options(t, b.dbs)), Keys: least.Keys, Seed: seed, Least: least, Limit: 8 * time.Minute,
		}
		soaked := over(soak(t))
		for again := true; again && !t.Failed(); again = !soaked() {
			t.Logf("seed %d", workload.Seed)
			b.exec(t, `DELETE FROM lock_session`) // a history begins with free keys
			history, err := workload.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			locktest.Require(t, history, rules(), least)
			workload.Seed++
		}
	})
}
