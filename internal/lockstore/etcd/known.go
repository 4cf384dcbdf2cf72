package etcd

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// mostKnown bounds what a store remembers; what it has forgotten it asks for again.
const mostKnown = 4096

// life is what a store knows of a session's lease.
type life struct {
	lease clientv3.LeaseID
	// mod is the ModRevision of the session's alive key with this lease.
	mod int64
	ttl time.Duration
	// until is when the lease ends at the earliest, by this process's clock; it is
	// shown, and decides nothing.
	until time.Time
}

// known is a bounded memory of things that can be asked for again.
type known[K comparable, V any] struct {
	mu     sync.Mutex
	things map[K]V
}

func (k *known[K, V]) get(key K) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok := k.things[key]
	return value, ok
}

func (k *known[K, V]) put(key K, value V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.things == nil {
		k.things = make(map[K]V)
	}
	if _, ok := k.things[key]; !ok && len(k.things) >= mostKnown {
		for some := range k.things { // any will do
			delete(k.things, some)
			break
		}
	}
	k.things[key] = value
}

func (k *known[K, V]) forget(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.things, key)
}

// recent are the grants that this store made: what a key holds at one ModRevision
// never changes, so that a release need not read it first.
type recent = known[lockstore.GrantRef, standing]

// expiries are when sessions end, as this store has told before.
type expiries = known[lockstore.SessionID, time.Time]

// leases are those of the sessions that this store has worked for. Whatever is done
// with one is compared with the cluster in the same transaction.
type leases = known[lockstore.SessionID, life]
