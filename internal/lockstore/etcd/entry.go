package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Show returns one entry, or ErrNotFound.
func (s *Store) Show(ctx context.Context, key string) (lockstore.Entry, error) {
	if err := lockstore.LookupKey(key); err != nil {
		return lockstore.Entry{}, err
	}
	doing := fmt.Sprintf("show lock %q", key)
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.lock(key)), clientv3.OpGet(s.keys.queue(key), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return lockstore.Entry{}, err
	}
	if got.kv(0) == nil {
		return lockstore.Entry{}, fmt.Errorf("lock %q: %w", key, lockstore.ErrNotFound)
	}
	entry, err := s.entry(ctx, doing, s.keys.readLock(got.kv(0)))
	entry.Waiters = got.count(1)
	return entry, err
}

// entry asks whether the session of a lock that was seen is alive. One that is now was
// so when the lock was seen, for no session comes back.
func (s *Store) entry(ctx context.Context, doing string, lock standing) (lockstore.Entry, error) {
	if lock.odd != "" {
		return s.describe(lock, 0), nil
	}
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.alive(lock.Session)))
	if err != nil {
		return lockstore.Entry{}, err
	}
	left, err := s.lifeLeft(ctx, doing, lock.Session, got.kv(0))
	if err != nil {
		return lockstore.Entry{}, err
	}
	return s.describe(lock, left), nil
}

// describe tells of a lock of whose session so much is left, zero of one that is over.
func (s *Store) describe(lock standing, left time.Duration) lockstore.Entry {
	if lock.odd != "" {
		odd := lockstore.Entry{Key: lock.Key, Token: lock.token, State: lockstore.Unreadable, ExpiresAt: lockstore.Time{Infinite: true}}
		if s.keys.nameless(lock) {
			odd.Token = 0 // there is nothing to revoke by it
		}
		return odd
	}
	entry := lockstore.Entry{
		Key: lock.Key, Token: lock.token, Owner: lock.Owner, Session: lock.Session, AcquiredAt: shown(lock.AcquiredAt),
		Age: max(0, now().Sub(lock.AcquiredAt)), Remaining: left, Expired: left == 0,
	}
	if entry.Expired {
		entry.ExpiresAt = s.ended(lock.Session, lock.AcquiredAt)
	} else {
		entry.ExpiresAt = s.expiry(lock.Session, entry.Remaining)
	}
	entry.SessionExpiresAt = entry.ExpiresAt
	return entry
}

// List returns entries by key. A lapsed one is listed and marked, and so is one that
// cannot be read (lockstore.Unreadable). What is left of each session is a question of its
// own.
func (s *Store) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	const doing = "list locks"
	view, err := s.look(ctx, doing, filter)
	if err != nil {
		return nil, err
	}
	locks := view.locks
	if filter.Limit > 0 {
		locks = locks[:min(len(locks), filter.Limit)]
	}
	left, err := s.lives(ctx, doing, locks, view.alive)
	if err != nil {
		return nil, err
	}
	entries := make([]lockstore.Entry, len(locks))
	for i, lock := range locks {
		entries[i] = s.describe(lock, left[lock.Session])
		entries[i].Waiters = view.waiters[escape(lock.Key)]
	}
	return entries, nil
}

// lives is what is left of the sessions of some locks, each asked about once however many
// hang on it.
func (s *Store) lives(ctx context.Context, doing string, locks []standing, alive map[lockstore.SessionID]*mvccpb.KeyValue) (map[lockstore.SessionID]time.Duration, error) {
	var mu sync.Mutex
	left := make(map[lockstore.SessionID]time.Duration)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	asked := make(map[lockstore.SessionID]bool)
	for _, lock := range locks {
		id := lock.Session
		if lock.odd != "" || asked[id] {
			continue
		}
		asked[id] = true
		group.Go(func() error {
			remains, err := s.lifeLeft(ctx, doing, id, alive[id])
			mu.Lock()
			defer mu.Unlock()
			left[id] = remains
			return err
		})
	}
	return left, group.Wait()
}

// view is the lock table at one revision.
type view struct {
	revision int64
	// locks are those that the filter selects, by key.
	locks []standing
	alive map[lockstore.SessionID]*mvccpb.KeyValue
	// waiters counts the places of each queue, by the escaped key.
	waiters map[string]int
}

// look reads the lock table; the filter's Limit is the caller's to keep.
func (s *Store) look(ctx context.Context, doing string, filter lockstore.Filter) (view, error) {
	if err := errors.Join(lockstore.LookupText("owner", filter.Owner), lockstore.LookupText("prefix", filter.Prefix)); err != nil {
		return view{}, err
	}
	if filter.Session != "" {
		if err := validSession(filter.Session); err != nil {
			return view{}, err
		}
	}
	got, err := s.read(ctx, doing,
		clientv3.OpGet(s.keys.locks()+escape(filter.Prefix), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.alives(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.queues()+escape(filter.Prefix), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return view{}, err
	}
	v := view{revision: got.revision, alive: s.aliveByID(got.kvs(1)), waiters: map[string]int{}}
	for _, kv := range got.kvs(2) {
		key, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), s.keys.queues()), "/")
		v.waiters[key]++
	}
	for _, kv := range got.kvs(0) {
		lock := s.keys.readLock(kv)
		if v.matches(lock, filter) {
			v.locks = append(v.locks, lock)
		}
	}
	slices.SortFunc(v.locks, func(a, b standing) int { return strings.Compare(a.Key, b.Key) })
	return v, nil
}

// matches tells that the filter selects a lock. Of one that cannot be read it is not known
// whose it is, nor that it is over.
func (v view) matches(lock standing, filter lockstore.Filter) bool {
	if lock.odd != "" {
		return filter.Owner == "" && filter.Session == "" && !filter.Expired
	}
	return (filter.Owner == "" || lock.Owner == filter.Owner) &&
		(filter.Session == "" || lock.Session == filter.Session) &&
		(!filter.Expired || v.alive[lock.Session] == nil)
}
