package etcd

import (
	"context"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// MostSkipped is how many revisions are written, with nothing in them, to get past
// tokens that may have been issued. Each is a transaction of its own, for etcd has no
// other way to raise its revision while it runs. Measured on one member with two busy
// cores: 20 s, and 7 MB until the next compaction. Past that a bump while no member runs
// is the way.
const MostSkipped lockstore.Token = 100_000

// skipAtOnce is how many are under way: they share the members' writes to the disk.
const skipAtOnce = 128

// skipTo raises the revision to at least target, by revisions that hold nothing.
func (s *Store) skipTo(ctx context.Context, target lockstore.Token) error {
	var reached atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range skipAtOnce {
		group.Go(func() error {
			for reached.Load() < int64(target) {
				got, err := s.change(ctx, "raise the revision of the etcd cluster", txn{then: []clientv3.Op{clientv3.OpPut(s.keys.meta("skip"), "")}})
				if err != nil {
					return err
				}
				rise(&reached, got.revision)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("skip the revisions up to %s: %w", target, err)
	}
	return nil
}

// rise raises an atomic number, never lowers it.
func rise(to *atomic.Int64, n int64) {
	for {
		have := to.Load()
		if have >= n || to.CompareAndSwap(have, n) {
			return
		}
	}
}
