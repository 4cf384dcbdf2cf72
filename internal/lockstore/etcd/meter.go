package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var _ lockstore.Meter = (*Store)(nil)

// Pulse reads how busy the store is. Last is the cluster's revision, which every write
// of anybody's raises: of draws it tells no more than a bound. Waiting counts those who
// stand in queues.
func (s *Store) Pulse(ctx context.Context, since lockstore.Token) (lockstore.Pulse, error) {
	got, err := s.read(ctx, "read how busy the etcd cluster is",
		clientv3.OpGet(s.keys.locks(), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(int64(since)+1)),
		clientv3.OpGet(s.keys.grant(since+1), clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.keys.grants())), clientv3.WithCountOnly()),
		clientv3.OpGet(s.keys.queues(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return lockstore.Pulse{}, err
	}
	return lockstore.Pulse{Last: lockstore.Token(got.revision), Grants: len(got.kvs(0)) + got.count(1), Waiting: got.count(2)}, nil
}
