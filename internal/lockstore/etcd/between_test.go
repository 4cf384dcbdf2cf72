package etcd_test

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// between stands between a store and the cluster: do is called instead of the client's.
type between struct {
	clientv3.KV
	do func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error)
}

func (b between) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return b.do(ctx, op, b.KV)
}

// isChange tells a transaction that writes from one that reads.
func isChange(op clientv3.Op) bool {
	compare, then, _ := op.Txn()
	for _, op := range then {
		if !op.IsGet() {
			return true
		}
	}
	return len(compare) > 0
}

// errCut is what gRPC says of a connection that broke while an answer was awaited.
var errCut = status.Error(codes.Unavailable, "error reading from server: EOF")

// cutter loses the next change, or its answer.
type cutter struct{ next atomic.Int32 }

const (
	cutNone = iota
	cutBefore
	cutAfter
)

func (c *cutter) cut(where locktest.Cut) {
	if where == locktest.BeforeCommit {
		c.next.Store(cutBefore)
		return
	}
	c.next.Store(cutAfter)
}

func (c *cutter) between(kv clientv3.KV) clientv3.KV {
	return between{kv, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		if !isChange(op) {
			return next.Do(ctx, op)
		}
		switch c.next.Swap(cutNone) {
		case cutBefore:
			etcd.Sent(ctx)
			return clientv3.OpResponse{}, errCut
		case cutAfter:
			if _, err := next.Do(ctx, op); err != nil {
				return clientv3.OpResponse{}, err
			}
			return clientv3.OpResponse{}, errCut
		default:
			return next.Do(ctx, op)
		}
	}}
}
