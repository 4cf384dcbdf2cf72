package runbook_test

import (
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// moved are the runbooks that leave lockdb.
func moved() map[string]bool { return map[string]bool{"move-to-etcd.md": true} }

// The locks move to etcd and the tokens go on rising: after the page's last word lockdb
// grants nothing, and etcd nothing that is not above all that lockdb has granted, a
// lock that was held at the time included.
//
// Clauses: K-10.1, K-1.3, K-7.8
// Mutation: leave the freeze, or --observed, out of the page.
func TestMoveToEtcd(t *testing.T) {
	t.Parallel()
	for name := range moved() {
		s := newStage(t)
		lockdb, err := postgres.Open(t.Context(), postgres.Options{Config: s.dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting})
		if err != nil {
			t.Fatal(err)
		}
		defer lockdb.Close()
		// So many that paydb, which has seen none of them, is no evidence of where they end.
		before := grantOn(t, lockdb, "runbook:held", 200)
		member, prefix := etcdtest.Single(t).Endpoint(0), etcdtest.Prefix(t)
		s.env = append(s.env, "NEW_ETCD="+member, "DLOCKCTL_ETCD_PREFIX="+prefix)
		s.run(t, filepath.Join(folder, name))
		cluster, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{member}, Prefix: prefix, Purpose: etcd.Granting})
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		if after := grantOn(t, cluster, "runbook:held", 1); after.Token <= before.Token {
			t.Errorf("etcd granted %s, and lockdb before it %s", after.Token, before.Token)
		}
	}
}

// grantOn takes a lock for a day, and enters it again until it has had so many grants.
func grantOn(t *testing.T, store lockstore.Store, key string, grants int) (last lockstore.Grant) {
	t.Helper()
	session, err := store.CreateSession(t.Context(), "w", lockstore.MaxTTL)
	if err != nil {
		t.Fatal(err)
	}
	for range grants {
		if last, err = store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "w", Session: session.ID, TTL: lockstore.MaxTTL}); err != nil {
			t.Fatal(err)
		}
	}
	return last
}
