package locktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

func TestMain(m *testing.M) {
	m.Run()
	leaktest.Exit()
}

// kinds are backends that differ as those of this project do.
func kinds() map[string]lockstore.Capabilities {
	return map[string]lockstore.Capabilities{
		"like postgres":  {Backend: "memory", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true},
		"like etcd":      {Backend: "memory", Sessions: true, GlobalTokens: true, Journal: true, LeaseStep: time.Second, WriterTimes: true, EndsUntimed: true, BulkLimit: 3},
		"like SyncGuard": {Backend: "memory", OwnTTL: true, Ownerless: true, LockIDs: true, Tolerance: 100 * time.Millisecond},
	}
}

func backend(caps lockstore.Capabilities, broken string) locktest.Backend {
	return locktest.Backend{Declared: caps, Database: func(*testing.T) func(*testing.T) lockstore.Store {
		shelf := newShelf()
		return func(*testing.T) lockstore.Store { return memory{shelf, caps, broken} }
	}}
}

// Backends that differ as etcd and SyncGuard do pass the suite by declaring so.
//
// Mutation: ask every backend for what PostgreSQL has.
func TestSuiteAcceptsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for name, caps := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, backend(caps, ""))
		})
	}
}

// A backend that breaks one promise fails the clause of that promise.
//
// Mutation: take the body of any clause out.
func TestSuiteCatchesWhatIsBroken(t *testing.T) {
	t.Parallel()
	reference := kinds()["like postgres"]
	for _, clause := range locktest.Names() {
		number, _, _ := strings.Cut(clause, " ")
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			if !locktest.Fails(t, backend(reference, number), clause) {
				t.Errorf("a store that breaks %s passes it", number)
			}
		})
	}
	for _, clause := range []string{"L6 re-entry", "L5 tokens over all keys"} {
		number, _, _ := strings.Cut(clause, " ")
		if !locktest.Fails(t, backend(kinds()["like SyncGuard"], number), clause) {
			t.Errorf("a store that is not as it declares passes %s", number)
		}
	}
	for _, clause := range []string{
		"L7 sessions of one owner", "L11 heartbeat", "L12 session over", "L13 session death", "L14 batch", "L16 revoke with session", "L17 bulk revoke",
		"L19 lists", "L21 journal",
	} {
		if !locktest.Fails(t, backend(kinds()["like SyncGuard"], "unsupported"), clause) {
			t.Errorf("a store that says nothing where it has nothing passes %s", clause)
		}
	}
	for _, clause := range []string{"L14 batch", "L17 bulk revoke", "L18 prune"} {
		if !locktest.Fails(t, backend(kinds()["like etcd"], "unsupported"), clause) {
			t.Errorf("a store that says nothing where it has nothing passes %s", clause)
		}
	}
	if !locktest.Fails(t, backend(kinds()["like SyncGuard"], "lock ids"), "L2 grant") {
		t.Error("a store that gives no secret ids, though it declares them, passes L2")
	}
}
