package etcd_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// readings counts what a store reads that is more than numbers.
type readings struct{ lists atomic.Int64 }

func (r *readings) between(kv clientv3.KV) clientv3.KV {
	return between{kv, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		_, then, _ := op.Txn()
		for _, op := range then {
			if op.IsGet() && !op.IsCountOnly() && len(op.RangeBytes()) > 0 {
				r.lists.Add(1)
			}
		}
		return next.Do(ctx, op)
	}}
}

// While every session lives, a look of the reaper is answered by two numbers, however many
// sessions there are; the lists are read when one has lapsed, and once in five minutes.
//
// Clauses: K-2.4
// Mutation: leave noneLapsed out of ReapSessions, or the turn of readAllEvery out of it.
func TestReaperReadsNumbers(t *testing.T) {
	t.Parallel()
	seen := &readings{}
	opts := options(t)
	reaper := open(t, etcd.Between(opts, seen.between))
	for _, owner := range []string{"alice", "bob", "carol"} {
		newClient(t, opts, owner, time.Hour).lock(t, "k-"+owner)
	}
	reap := func(looks int, want lockstore.Reaped, lists bool) {
		t.Helper()
		seen.lists.Store(0)
		var reaped lockstore.Reaped
		for range looks {
			got, err := reaper.ReapSessions(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			reaped.Sessions, reaped.Locks = reaped.Sessions+got.Sessions, reaped.Locks+got.Locks
		}
		// How many is not to be told: a read whose answer was lost is sent again.
		if read := seen.lists.Load(); reaped != want || read > 0 != lists {
			t.Errorf("%d looks reaped %+v by %d lists; want %+v, and lists read: %t", looks, reaped, read, want, lists)
		}
	}
	none := lockstore.Reaped{}
	reap(1, none, true)
	reap(299, none, false)
	reap(1, none, true)
	reap(10, none, false)

	// One that has lapsed makes the numbers differ.
	dave := newClient(t, opts, "dave", time.Hour)
	dave.lock(t, "k-dave")
	dave.end(t, opts)
	reap(1, lockstore.Reaped{Sessions: 1, Locks: 1}, true)
	reap(10, none, false)

	// Where a record was taken away by hand, the numbers agree although one has lapsed, and
	// the lists tell at their next turn, the 601st look.
	odd, lapsed := newClient(t, opts, "erin", time.Hour), newClient(t, opts, "frank", time.Hour)
	if got, err := etcdtest.Single(t).Client(t).Delete(t.Context(), opts.Prefix+"session/"+string(odd.id)); err != nil || got.Deleted != 1 {
		t.Fatalf("take the record of %s away: %+v, %v", odd.owner, got, err)
	}
	lapsed.end(t, opts)
	reap(600-322, none, false)
	reap(1, lockstore.Reaped{Sessions: 1}, true)
	reap(10, none, false)
}
