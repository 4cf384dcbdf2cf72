package etcd_test

import (
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// seed decides what each client of a history does.
const seed = 1010

// rules are those of what this backend declares: a lease is over when its holder's trust
// is, at the earliest, and no answer's own time decides.
func rules() locktest.Rules { return locktest.RulesOf(capabilities()) }

// clients are independent ones, as other processes would be; every other one is cut off
// now and then, before a change has reached the cluster or before its answer is back.
func clients(t *testing.T, n int, opts etcd.Options) []locktest.Client {
	t.Helper()
	made := make([]locktest.Client, n)
	for i := range made {
		if i%2 == 1 {
			c := new(cutter)
			made[i] = locktest.Client{Store: open(t, etcd.Between(opts, c.between)), Cut: c.cut}
			continue
		}
		made[i] = locktest.Client{Store: open(t, opts)}
	}
	return made
}

// What 20 clients are told of 16 keys is what they could be told one after the other by
// a fenced mutex: through takeovers from holders that paused or died, re-entry,
// revocation, and changes and answers that were lost.
//
// Clauses: K-1.3, K-1.4, K-2.2, K-2.6, K-2.7, K-2.9, K-2.10, K-3.1, K-10.1
// Mutation: any row of TestControls, which feed the same checker.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	least := locktest.Stats{Clients: 20, Keys: 16, Ops: 600, Takeovers: 12, ReEntries: 3, Revoked: 2, Unknown: 4}
	workload := locktest.Workload{
		Clients: clients(t, least.Clients, options(t)), Keys: least.Keys, Seed: seed, Least: least, Limit: 8 * time.Minute,
		// etcd's shortest lease is half of three election timeouts: two seconds.
		ShortTTL: 200 * time.Millisecond, LongTTL: 2 * time.Second,
	}
	history, err := workload.Run(t.Context())
	if err != nil {
		t.Error(err)
	}
	locktest.Require(t, history, rules(), least)
}
