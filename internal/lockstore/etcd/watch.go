package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Watch tells each change of a lock as etcd tells it, what stands at the beginning
// first, until ctx ends or tell returns an error. Nothing between two looks is lost:
// it goes on from the revision that was seen. Where that has been compacted meanwhile,
// it looks at what stands and goes on from there, and so after an election. Renewals write
// nothing to etcd and are not told; lapsed is told when the cluster has ended the session's
// lease. Returns *lockstore.UnreachableError when the cluster does not answer for longer
// than an election takes.
func (s *Store) Watch(ctx context.Context, filter lockstore.Filter, tell func(lockstore.Change) error) error {
	if filter.Limit != 0 || filter.Expired {
		return fmt.Errorf("%w: a watch sees all that matches, lapsed or not: no limit", lockstore.ErrInvalid)
	}
	w := &lockWatch{Store: s, filter: filter, tell: tell, before: make(map[string]lockstore.Entry)}
	var away time.Time
	for begun := false; ; {
		revision, err := w.relist(ctx)
		if err == nil {
			away, begun = time.Time{}, true
			err = w.follow(ctx, revision)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errWatchAgain), begun && s.outlives(ctx, &away, err):
			if err := lockstore.Pause(ctx, afterBroken); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// errWatchAgain: the watch was broken off and has to begin anew.
var errWatchAgain = errors.New("the watch was broken off")

type lockWatch struct {
	*Store
	filter lockstore.Filter
	tell   func(lockstore.Change) error
	// before is what has been told of each key.
	before map[string]lockstore.Entry
}

// outlives tells that a wait or a watch goes on after an error: the cluster does not answer,
// and since away, which is zero where it last did, has not for long. An election takes a
// second or two, and a request its whole time on a member that is gone.
func (s *Store) outlives(ctx context.Context, away *time.Time, err error) bool {
	_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
	if !unreachable && !unknown || ctx.Err() != nil || s.client.Ctx().Err() != nil {
		return false
	}
	if away.IsZero() {
		*away = time.Now()
	}
	const requests = 3
	return time.Since(*away) < requests*s.options.Timeout
}

const doingWatch = "watch locks"

// relist tells how what stands differs from what has been told, and returns the
// revision at which it stood.
func (w *lockWatch) relist(ctx context.Context) (int64, error) {
	view, err := w.look(ctx, doingWatch, w.filter)
	if err != nil {
		return 0, err
	}
	now := make(map[string]bool, len(view.locks))
	for _, lock := range view.locks {
		now[lock.Key] = true
		if err := w.stands(ctx, lock, view.alive[lock.Session]); err != nil {
			return 0, err
		}
	}
	for key := range w.before {
		if !now[key] {
			if err := w.gone(key); err != nil {
				return 0, err
			}
		}
	}
	return view.revision, nil
}

// stands tells of an entry that is there, when that is news.
func (w *lockWatch) stands(ctx context.Context, lock standing, alive *mvccpb.KeyValue) error {
	last, known := w.before[lock.Key]
	if known && last.Token == lock.token && last.Expired == (alive == nil) {
		return nil
	}
	left, err := w.lifeLeft(ctx, doingWatch, lock.Session, alive)
	if err != nil {
		return err
	}
	entry := w.describe(lock, left)
	kind := lockstore.ChangeOf(w.before, entry)
	w.before[lock.Key] = entry
	if kind == "" || kind == lockstore.ChangeRenewed {
		return nil
	}
	return w.tell(lockstore.Change{Kind: kind, Entry: entry})
}

func (w *lockWatch) told(key string) bool {
	_, known := w.before[key]
	return known
}

func (w *lockWatch) gone(key string) error {
	entry := w.before[key]
	delete(w.before, key)
	return w.tell(lockstore.Change{Kind: lockstore.ChangeGone, Entry: entry})
}

// follow tells what happens after a revision, as long as the cluster answers.
func (w *lockWatch) follow(ctx context.Context, revision int64) error {
	ctx, end := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	var asking sync.WaitGroup
	asking.Go(func() { end(w.askOn(ctx)) })
	defer asking.Wait()
	defer end(nil)
	err := w.events(ctx, revision)
	if lost := context.Cause(ctx); lost != nil && errors.Is(err, errWatchAgain) {
		return lost
	}
	return err
}

// askOn asks the cluster again and again until it does not answer, and returns why; nil when
// ctx has ended. A watch, also one that is only being set, tries for ever to reach a member,
// and tells nobody.
func (w *lockWatch) askOn(ctx context.Context) error {
	for lockstore.Pause(ctx, lookAgain) == nil {
		if _, err := w.read(ctx, doingWatch, clientv3.OpGet(w.keys.gate())); err != nil {
			return err
		}
	}
	return nil
}

// events tells what happens after a revision. Locks and sessions come in two streams;
// which of two events comes first does not matter, since an event of a session is of
// the locks that have been told to hang on it.
func (w *lockWatch) events(ctx context.Context, revision int64) error {
	locks := w.client.Watch(ctx, w.keys.locks()+escape(w.filter.Prefix), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	ends := w.client.Watch(ctx, w.keys.alives(), clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithFilterPut())
	for {
		var got clientv3.WatchResponse
		var open bool
		handle := w.lockEvent
		select {
		case got, open = <-locks:
		case got, open = <-ends:
			handle = w.endEvent
		}
		if err := got.Err(); !open || errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrNoLeader) {
			return errWatchAgain
		} else if err != nil {
			return classifyRead(ctx, doingWatch, err)
		}
		for _, event := range got.Events {
			if err := handle(ctx, event); err != nil {
				return err
			}
		}
	}
}

func (w *lockWatch) lockEvent(ctx context.Context, event *clientv3.Event) error {
	if event.Type == clientv3.EventTypeDelete {
		if key := w.keys.keyOf(string(event.Kv.Key)); w.told(key) {
			return w.gone(key)
		}
		return nil
	}
	lock := w.keys.readLock(event.Kv)
	if !w.isWanted(lock) {
		if w.told(lock.Key) {
			return w.gone(lock.Key) // taken over by another
		}
		return nil
	}
	got, err := w.read(ctx, doingWatch, clientv3.OpGet(w.keys.alive(lock.Session)))
	if err != nil {
		return err
	}
	return w.stands(ctx, lock, got.kv(0))
}

func (w *lockWatch) isWanted(lock standing) bool { return view{}.matches(lock, w.filter) }

// endEvent tells of the locks whose session has ended; their entries stay for a while.
func (w *lockWatch) endEvent(_ context.Context, event *clientv3.Event) error {
	id := lockstore.SessionID(strings.TrimPrefix(string(event.Kv.Key), w.keys.alives()))
	for key, entry := range w.before {
		if entry.Session != id || entry.Expired {
			continue
		}
		entry.Expired, entry.Remaining, entry.Age = true, 0, max(0, time.Since(entry.AcquiredAt.Time))
		w.before[key] = entry
		if err := w.tell(lockstore.Change{Kind: lockstore.ChangeLapsed, Entry: entry}); err != nil {
			return err
		}
	}
	return nil
}
