package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// attempts bounds how often a change is begun again because somebody else's came in
// between; each of those has made progress.
const attempts = 32

// errElse is returned by extend: something other than the session, that was to be
// compared with it, has moved on.
var errElse = errors.New("what was compared beside the session has moved on")

// seconds is a lease in etcd's unit, never shorter than asked for.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// grantLease makes a lease that nothing hangs on yet. One whose answer is lost ends by
// itself and was nobody's, so there is no unknown outcome.
func (s *Store) grantLease(ctx context.Context, doing string, ttl time.Duration) (life, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	sent := time.Now()
	got, err := s.client.Grant(clientv3.WithRequireLeader(ctx), seconds(ttl))
	if err != nil {
		return life{}, classifyRead(ctx, doing, err)
	}
	granted := time.Duration(got.TTL) * time.Second
	return life{lease: got.ID, ttl: granted, until: sent.Add(granted)}, nil
}

// extend makes a session last for ttl from now, at least, and returns when a
// transaction has seen the session alive on the lease that was extended, and also
// everything in also. The order matters: a lease that is renewed first and found in
// its place afterwards was the session's all along.
//
// Returns lockstore.ErrSessionLost, or errElse.
func (s *Store) extend(ctx context.Context, doing string, id lockstore.SessionID, ttl time.Duration, also ...clientv3.Cmp) (life, error) {
	for range attempts {
		l, known := s.leases.get(id)
		if !known {
			var err error
			if l, err = s.findLife(ctx, doing, id); err != nil {
				return life{}, err
			}
		}
		s.leases.forget(id)
		var err error
		t := txn{
			compare:   append(slices.Clone(also), unchanged(s.keys.alive(id), l.mod)),
			otherwise: []clientv3.Op{clientv3.OpGet(s.keys.alive(id))},
		}
		seen, moving := l.mod, l.ttl < time.Duration(seconds(ttl))*time.Second
		if moving {
			// etcd renews a lease to what it was granted for, and no further. The old
			// one is left to end by itself.
			if l, err = s.grantLease(ctx, doing, ttl); err == nil {
				t.then = []clientv3.Op{s.keys.hang(id, l)}
			}
		} else {
			l, err = s.keepAlive(ctx, doing, l)
		}
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			continue
		}
		if err != nil {
			return life{}, err
		}
		got, err := s.change(ctx, doing, t)
		if moving && err == nil && !got.done {
			s.dropLease(ctx, l.lease) // nothing hangs on it
		}
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // it ended before it was used
		case err != nil:
			return life{}, err
		case got.done:
			if moving {
				l.mod = got.revision
			}
			s.leases.put(id, l)
			return l, nil
		case got.kv(0) == nil:
			return life{}, lockstore.ErrSessionLost
		case got.kv(0).ModRevision == seen:
			return life{}, errElse
		}
	}
	return life{}, fmt.Errorf("%s: the session's lease changed %d times meanwhile", doing, attempts)
}

// hang makes a session live as long as the lease.
func (k keys) hang(id lockstore.SessionID, l life) clientv3.Op {
	return clientv3.OpPut(k.alive(id), encode(lifeRecord{int64(l.ttl / time.Second)}), clientv3.WithLease(l.lease))
}

// findLife reads which lease a session hangs on, or returns ErrSessionLost.
func (s *Store) findLife(ctx context.Context, doing string, id lockstore.SessionID) (life, error) {
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.alive(id)))
	if err != nil {
		return life{}, err
	}
	kv := got.kv(0)
	if kv == nil {
		return life{}, lockstore.ErrSessionLost
	}
	var record lifeRecord
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		return life{}, fmt.Errorf("%s: read how long session %s lasts: %w", doing, id.Masked(), err)
	}
	return life{lease: clientv3.LeaseID(kv.Lease), mod: kv.ModRevision, ttl: time.Duration(record.Seconds) * time.Second}, nil
}

// keepAlive renews a lease to what it was granted for. It may end in
// rpctypes.ErrLeaseNotFound.
func (s *Store) keepAlive(ctx context.Context, doing string, l life) (life, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	sent := time.Now()
	watched, isSent := watchSending(clientv3.WithRequireLeader(ctx))
	got, err := s.client.KeepAliveOnce(watched, l.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return life{}, err //nolint:wrapcheck // extend asks again
	}
	if err != nil {
		return life{}, classify(ctx, doing, isSent.Load(), err)
	}
	l.ttl = time.Duration(got.TTL) * time.Second
	l.until = sent.Add(l.ttl)
	return l, nil
}

// remaining asks the cluster what is left of a lease: whole seconds, rounded down, and
// at least a millisecond while it lives. Zero is a lease that is over.
func (s *Store) remaining(ctx context.Context, doing string, lease clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	got, err := s.client.TimeToLive(clientv3.WithRequireLeader(ctx), lease)
	if err != nil {
		return 0, classifyRead(ctx, doing, err)
	}
	if got.TTL < 0 {
		return 0, nil
	}
	// A member whose clock was set back has told more than it granted (etcd#12381).
	left := time.Duration(min(got.TTL, got.GrantedTTL)) * time.Second
	return max(left, time.Millisecond), nil
}

// dying is what is left of a session whose lease is over and not ended yet, which a
// leader does twice a second.
const dying = 100 * time.Millisecond

// lifeLeft is what is left of a session that was seen to hang on the key alive, nil for
// none; zero of one that is over. That its lease is gone does not tell: the session may hang on another by
// now. Nor that the leader calls it over: until the members have agreed on its end, the
// next leader lets it go on (etcd#13915). Only the key tells, for no session comes back.
func (s *Store) lifeLeft(ctx context.Context, doing string, id lockstore.SessionID, alive *mvccpb.KeyValue) (time.Duration, error) {
	for range attempts {
		if alive == nil {
			return 0, nil
		}
		left, err := s.remaining(ctx, doing, clientv3.LeaseID(alive.Lease))
		if err != nil || left > 0 {
			return left, err
		}
		got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.alive(id)))
		if err != nil {
			return 0, err
		}
		still := got.kv(0)
		if still != nil && still.Lease == alive.Lease {
			return dying, nil
		}
		alive = still
	}
	return dying, nil
}

// coarse is how far two answers about one lease may lie apart that was not renewed in
// between: etcd tells whole seconds.
const coarse = 1500 * time.Millisecond

// expiry is when a session ends of whose lease so much is left, for people. It stays
// where it was told to be until the lease has been renewed: a watch would take each
// rounding for a renewal.
func (s *Store) expiry(id lockstore.SessionID, left time.Duration) lockstore.Time {
	end := now().Add(left)
	if last, known := s.told.get(id); known && end.Sub(last).Abs() < coarse {
		return shown(last)
	}
	s.told.put(id, end)
	return shown(end)
}

// ended is when a session that is over ended, as far as it is known: when this store
// had told it would, or not before begun.
func (s *Store) ended(id lockstore.SessionID, begun time.Time) lockstore.Time {
	if last, known := s.told.get(id); known && last.After(begun) {
		return shown(last)
	}
	return shown(begun)
}

// dropLease ends a lease, with the place in a queue that may hang on it. It would end by
// itself; a failure costs nothing.
func (s *Store) dropLease(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	_, _ = s.client.Revoke(clientv3.WithRequireLeader(ctx), lease)
}
