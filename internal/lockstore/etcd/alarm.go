package etcd

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// alarm rings when one of some keys changes, from the moment at which it was set: who
// looks after that misses nothing. A watch from the revision of a look before would do
// too, but etcd catches those up ten times a second only.
type alarm struct {
	names []string
	rings chan struct{}
	// broken tells that it will not ring any more.
	broken atomic.Bool
	stop   context.CancelFunc
}

// watch sets an alarm and returns when it is set, or the cluster takes too long for that.
func (w *waiter) watch(ctx context.Context, names []string) *alarm {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	a := &alarm{names: names, rings: make(chan struct{}, 1), stop: cancel}
	set := make(chan struct{}, len(names))
	for _, name := range names {
		go func() {
			// Watch itself returns when a member has answered.
			for got := range w.client.Watch(ctx, name, clientv3.WithCreatedNotify()) {
				if got.Created {
					set <- struct{}{}
					continue
				}
				a.ring()
			}
			a.broken.Store(true)
			a.ring()
		}()
	}
	timer := time.NewTimer(min(w.pause(), longestSetting))
	defer timer.Stop()
	for range names {
		select {
		case <-set:
		case <-timer.C:
			return a
		case <-ctx.Done():
			return a
		}
	}
	return a
}

// longestSetting bounds how long a waiter is deaf while it sets an alarm.
const longestSetting = time.Second

func (a *alarm) ring() {
	select {
	case a.rings <- struct{}{}:
	default: // it rings already
	}
}

// stopped ends an alarm, nil for none.
func (a *alarm) stopped() {
	if a != nil {
		a.stop()
	}
}
