package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// afterBroken is the pause after a watch that was broken off.
	afterBroken = 100 * time.Millisecond
	// placeTTL is how long a place outlives a waiter that does not leave it: longer than
	// an election and a request that waits for its time to be over.
	placeTTL = 10 * time.Second
	// lookAgain is how long it is trusted that a watch would have told, and how often a
	// waiter renews its place.
	lookAgain = placeTTL / 3
)

// Wait acquires a lock when it is the caller's turn, for at most Max: those who wait
// stand in a queue, and each watches the one before it alone, so that a release wakes
// one. A place hangs on a short lease of its own, which the waiter renews: were it the
// session's, a waiter that was killed would keep all behind it from a free key for as
// long as anybody keeps its session alive. A waiter whose session has died is answered
// ErrSessionLost and never granted (etcd#11456), for the granting transaction compares
// place and session. A plain Acquire asks nobody in the queue.
//
// It returns what lockstore.Wait does, but goes on through an election.
func (s *Store) Wait(ctx context.Context, params lockstore.WaitParams) (lockstore.Grant, error) {
	grant, err := s.acquire(ctx, acquisition{params: params.AcquireParams, behind: true})
	if held := (*lockstore.HeldError)(nil); !errors.As(err, &held) {
		return grant, err
	}
	w := &waiter{Store: s, params: params, doing: fmt.Sprintf("wait for lock %q", params.Key), started: time.Now(), beat: time.Now(), last: err}
	grant, err = w.run(ctx)
	if err != nil {
		w.leave(ctx)
	}
	return grant, err
}

type waiter struct {
	*Store
	params        lockstore.WaitParams
	doing         string
	started, beat time.Time
	// place is nil for one who is not in the queue.
	place *place
	// alarm watches what the last look found worth it, nil for nothing yet.
	alarm *alarm
	// last is why the key could not be had the last time, told the holder that was
	// reported last.
	last error
	told lockstore.Token
	// away is since when the cluster has not answered.
	away time.Time
}

func (w *waiter) run(ctx context.Context) (lockstore.Grant, error) {
	defer func() { w.alarm.stopped() }()
	for {
		if w.left() <= 0 {
			return lockstore.Grant{}, &lockstore.WaitTimeoutError{Key: w.params.Key, Waited: time.Since(w.started), Last: w.last}
		}
		next, err := w.stand(ctx)
		switch {
		case err != nil:
			if err := w.outlast(ctx, err); err != nil {
				return lockstore.Grant{}, err
			}
		case next.place == lost:
			w.place = nil
		case next.place == first:
			grant, err := w.acquire(ctx, acquisition{params: w.params.AcquireParams, from: w.place})
			_, held := errors.AsType[*lockstore.HeldError](err)
			_, unanswered := errors.AsType[*lockstore.UnreachableError](err)
			switch {
			case held:
				w.last = err // one who does not wait was faster
			case unanswered: // and so nothing was granted
				if err := w.outlast(ctx, err); err != nil {
					return lockstore.Grant{}, err
				}
			default:
				return grant, err
			}
		case w.alarm == nil || !slices.Equal(w.alarm.names, next.watch):
			w.alarm.stopped()
			w.alarm = w.watch(ctx, next.watch) // and look again: for what was before it
		default:
			if err := w.sleep(ctx); err != nil {
				return lockstore.Grant{}, err
			}
		}
	}
}

func (w *waiter) left() time.Duration { return w.params.Max - time.Since(w.started) }

// stand keeps session and place, and looks whose turn it is.
func (w *waiter) stand(ctx context.Context) (turn, error) {
	if err := w.keepAlive(ctx); err != nil {
		return turn{}, err
	}
	if err := w.keepPlace(ctx); err != nil {
		return turn{}, err
	}
	if w.place == nil {
		if err := w.enter(ctx); err != nil {
			return turn{}, err
		}
	}
	next, err := w.look(ctx)
	if err == nil {
		w.away = time.Time{}
	}
	return next, err
}

// outlast pauses after an error that a wait goes on after, and returns any other.
func (w *waiter) outlast(ctx context.Context, err error) error {
	if !w.outlives(ctx, &w.away, err) {
		return err
	}
	w.last = err
	if err := lockstore.Pause(ctx, afterBroken); err != nil {
		return fmt.Errorf("%s: %w", w.doing, err)
	}
	return nil
}

// enter takes a place at the end of the queue.
func (w *waiter) enter(ctx context.Context) error {
	nonce, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("%s: %w", w.doing, err)
	}
	id := w.params.Session
	p := &place{name: w.keys.waiter(w.params.Key, id) + "/" + nonce.String(), kept: time.Now()}
	l, err := w.grantLease(ctx, w.doing, placeTTL)
	if err != nil {
		return err
	}
	p.lease = l.lease
	got, err := w.change(ctx, w.doing, txn{
		compare: []clientv3.Cmp{present(w.keys.alive(id))},
		then:    []clientv3.Op{clientv3.OpPut(p.name, "", clientv3.WithLease(p.lease))},
	})
	switch {
	case err != nil:
		w.dropLease(context.WithoutCancel(ctx), p.lease) // and a place that may have been taken
		return err
	case !got.done:
		w.dropLease(ctx, p.lease)
		return fmt.Errorf("%s: %w", w.doing, lockstore.ErrSessionLost)
	}
	p.since = got.revision
	w.place = p
	return nil
}

// keepPlace renews the lease of the place when a third of its time has passed.
func (w *waiter) keepPlace(ctx context.Context) error {
	if w.place == nil || time.Since(w.place.kept) < lookAgain {
		return nil
	}
	kept := time.Now()
	_, err := w.Store.keepAlive(ctx, w.doing, life{lease: w.place.lease})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		w.place = nil
		return nil
	}
	if err == nil {
		w.place.kept = kept
	}
	return err
}

// leave gives the place up, which goes with its lease; it would end by itself.
func (w *waiter) leave(ctx context.Context) {
	if w.place != nil {
		w.dropLease(context.WithoutCancel(ctx), w.place.lease)
	}
}

// turn is what a waiter has seen.
type turn struct {
	place whose
	// watch are the keys whose change is worth another look: the life of the waiter's own
	// session, and the place before; for the first, the lock, and the holder's life.
	watch []string
}

// whose turn it is; zero is that of somebody before.
type whose int

const (
	// first: the key is free, and nobody stands before.
	first whose = iota + 1
	// lost: the place went with its lease, as of a waiter that stood still for long.
	lost
)

// look tells whether it is the waiter's turn, and otherwise what to watch.
func (w *waiter) look(ctx context.Context) (turn, error) {
	k, p := w.keys, w.params
	got, err := w.read(ctx, w.doing,
		clientv3.OpGet(k.alive(p.Session)), clientv3.OpGet(w.place.name), clientv3.OpGet(k.lock(p.Key)),
		clientv3.OpGet(k.queue(p.Key), clientv3.WithPrefix(), clientv3.WithMaxCreateRev(w.place.since-1),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1)))
	if err != nil {
		return turn{}, err
	}
	if got.kv(0) == nil {
		return turn{}, fmt.Errorf("%s: %w", w.doing, lockstore.ErrSessionLost)
	}
	if got.kv(1) == nil {
		return turn{place: lost}, nil
	}
	holder, err := w.holder(ctx, got.kv(2))
	if err != nil {
		return turn{}, err
	}
	own := k.alive(p.Session)
	if before := got.kv(3); before != nil {
		return turn{watch: []string{own, string(before.Key)}}, nil
	}
	if holder == nil {
		return turn{place: first}, nil
	}
	return turn{watch: []string{own, k.lock(p.Key), k.alive(holder.Session)}}, nil
}

// holder is the live other in whose way the waiter stands, nil for none.
func (w *waiter) holder(ctx context.Context, kv *mvccpb.KeyValue) (*lockstore.Entry, error) {
	if kv == nil {
		return nil, nil //nolint:nilnil // nobody holds it
	}
	lock := w.keys.readLock(kv)
	if lock.odd != "" {
		return nil, lock.unreadable()
	}
	entry, err := w.entry(ctx, w.doing, lock)
	if err != nil || entry.Expired || entry.Owner == w.params.Owner && entry.Session == w.params.Session {
		return nil, err
	}
	w.tell(entry)
	return &entry, nil
}

// tell says who holds the key each time that changes.
func (w *waiter) tell(entry lockstore.Entry) {
	held := &lockstore.HeldError{Key: entry.Key, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
	w.last = held
	if w.params.Waiting != nil && entry.Token != w.told {
		w.told = entry.Token
		w.params.Waiting(held)
	}
}

// pause is how long may pass until it is time for something else.
func (w *waiter) pause() time.Duration {
	pause := min(lookAgain, w.left())
	if w.params.SessionTTL > 0 {
		pause = min(pause, w.params.SessionTTL/3)
	}
	return max(pause, time.Millisecond)
}

// sleep returns when the alarm has rung, or it is time to look anyway. It drops an alarm
// that is broken: the leader is gone, or the member.
func (w *waiter) sleep(ctx context.Context) error {
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	select {
	case <-w.alarm.rings:
	case <-timer.C:
	case <-ctx.Done():
	}
	if w.alarm.broken.Load() {
		w.alarm.stopped()
		w.alarm = nil
		timer.Reset(min(w.pause(), afterBroken))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", w.doing, context.Cause(ctx))
	}
	return nil
}

// keepAlive heartbeats the session before a third of its time has passed: a waiter
// whose own session died would wait for nothing.
func (w *waiter) keepAlive(ctx context.Context) error {
	if w.params.SessionTTL <= 0 || time.Since(w.beat) < w.params.SessionTTL/3 {
		return nil
	}
	beat := time.Now()
	_, err := w.Heartbeat(ctx, w.params.Session, w.params.SessionTTL)
	if err == nil {
		w.beat = beat
	}
	return err
}
