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

// readings counts the requests of a store, and those of them that read more than numbers.
type readings struct{ all, lists atomic.Int64 }

func (r *readings) between(kv clientv3.KV) clientv3.KV {
	return between{kv, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		r.all.Add(1)
		_, then, _ := op.Txn()
		for _, op := range then {
			if op.IsGet() && !op.IsCountOnly() && len(op.RangeBytes()) > 0 {
				r.lists.Add(1)
			}
		}
		return next.Do(ctx, op)
	}}
}

// While every session lives, a look of the reaper is one request whose answer is two
// numbers, however many sessions there are; the lists are read when one has lapsed, and
// once in five minutes.
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
	reap := func(looks int, want lockstore.Reaped, lists int64) {
		t.Helper()
		seen.all.Store(0)
		seen.lists.Store(0)
		var reaped lockstore.Reaped
		for range looks {
			got, err := reaper.ReapSessions(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			reaped.Sessions, reaped.Locks = reaped.Sessions+got.Sessions, reaped.Locks+got.Locks
		}
		if reaped != want || seen.lists.Load() != lists || lists == 0 && seen.all.Load() != int64(looks) {
			t.Errorf("%d looks reaped %+v by %d requests, %d lists among them; want %+v by %d lists", looks, reaped, seen.all.Load(), seen.lists.Load(), want, lists)
		}
	}
	none := lockstore.Reaped{}
	reap(1, none, 2)
	reap(299, none, 0)
	reap(1, none, 2)
	reap(10, none, 0)

	// One that has lapsed makes the numbers differ. Its locks are listed twice: the second
	// time there is none left.
	short := newClient(t, opts, "dave", time.Second)
	short.lock(t, "k-dave")
	short.lapse(t, reaper)
	reap(1, lockstore.Reaped{Sessions: 1, Locks: 1}, 4)
	reap(10, none, 0)

	// Where a record was taken away by hand, the numbers agree although one has lapsed, and
	// the lists tell at their next turn, the 601st look.
	raw := etcdtest.Single(t).Client(t)
	odd, lapsed := newClient(t, opts, "erin", time.Hour), newClient(t, opts, "frank", time.Second)
	lapsed.lapse(t, reaper)
	if _, err := raw.Delete(t.Context(), opts.Prefix+"session/"+string(odd.id)); err != nil {
		t.Fatal(err)
	}
	reap(600-322, none, 0)
	reap(1, lockstore.Reaped{Sessions: 1}, 3)
	reap(10, none, 0)
}
