package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// perTxn is how many locks one transaction takes away: etcd allows 128 comparisons in
// one, and as many operations on each level of it.
const perTxn = 100

// sweep takes the entries of a session away that is over, and then its record. No
// session comes back, and none that is over is granted anything, so that the entries
// only become fewer. It may be called by many at once, and again after one that was cut
// off; it returns how many locks this one took.
func (s *Store) sweep(ctx context.Context, doing string, id lockstore.SessionID) (int, error) {
	swept := 0
	for range attempts * attempts { // a session of a hundred thousand locks ends too
		got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.heldBy(id), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(perTxn)))
		if err != nil {
			return swept, err
		}
		if len(got.kvs(0)) == 0 {
			_, err := s.change(ctx, doing, txn{
				then: []clientv3.Op{clientv3.OpDelete(s.keys.session(id))},
			})
			return swept, err
		}
		gets := make([]clientv3.Op, len(got.kvs(0)))
		for i, kv := range got.kvs(0) {
			gets[i] = clientv3.OpGet(s.keys.locks() + strings.TrimPrefix(string(kv.Key), s.keys.heldBy(id)))
		}
		locks, err := s.read(ctx, doing, gets...)
		if err != nil {
			return swept, err
		}
		t, here := txn{}, 0
		for i := range gets {
			lock := standing{}
			if kv := locks.kv(i); kv != nil {
				lock = s.keys.readLock(kv)
			}
			if lock.Session != id { // another sweep was faster, or a takeover; or nobody knows whose it is
				t.then = append(t.then, clientv3.OpDelete(string(got.kvs(0)[i].Key)))
				continue
			}
			t.compare = append(t.compare, s.keys.asSeen(lock))
			t.then = append(t.then, clientv3.OpTxn(nil, s.keys.end(lock, endReaped), nil))
			here++
		}
		done, err := s.change(ctx, doing, t)
		if err != nil {
			return swept, err
		}
		if done.done {
			swept += here
		}
	}
	return swept, fmt.Errorf("%s: its locks are still being changed by others", doing)
}

// Prune takes away what has lapsed, journalled as expired. etcd does not tell since
// when, so there is no age to choose by (EndsUntimed).
func (s *Store) Prune(ctx context.Context, olderThan time.Duration, limit int) ([]lockstore.Entry, error) {
	if olderThan < 0 || limit < 1 {
		return nil, fmt.Errorf("%w: prune of at most %d entries older than %s; give a limit of at least 1 and an age of at least 0", lockstore.ErrInvalid, limit, olderThan)
	}
	if olderThan > 0 {
		return nil, fmt.Errorf("prune what lapsed more than %s ago: etcd does not tell when a lease ended; an age of 0 takes all that has lapsed: %w", olderThan, lockstore.ErrUnsupported)
	}
	const doing = "prune lapsed locks"
	view, err := s.look(ctx, doing, lockstore.Filter{Expired: true})
	if err != nil {
		return nil, err
	}
	pruned := []lockstore.Entry{}
	locks := view.locks[:min(len(view.locks), limit)]
	for len(locks) > 0 {
		some := locks[:min(len(locks), perTxn)]
		locks = locks[len(some):]
		var t txn
		for _, lock := range some {
			// Each by itself: one that was taken over meanwhile stays.
			t.then = append(t.then, clientv3.OpTxn([]clientv3.Cmp{s.keys.asSeen(lock)}, s.keys.end(lock, endExpired), nil))
		}
		got, err := s.change(ctx, doing, t)
		if err != nil {
			return pruned, err
		}
		for i, lock := range some {
			if !got.replies[i].GetResponseTxn().GetSucceeded() {
				continue
			}
			pruned = append(pruned, s.describe(lock, 0))
		}
	}
	return pruned, nil
}
