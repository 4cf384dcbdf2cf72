package etcd

import (
	"context"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/stats"
)

// txn is one transaction: all of compare holds and then is done, or otherwise is
// read. Every change of the store is one.
type txn struct {
	compare   []clientv3.Cmp
	then      []clientv3.Op
	otherwise []clientv3.Op
}

// answer is what a transaction answered.
type answer struct {
	// done tells that all comparisons held.
	done bool
	// revision is the cluster's, after it; for a change that was done, its own.
	revision int64
	cluster  uint64
	replies  []*pb.ResponseOp
}

// kvs is what the i-th operation read.
func (a answer) kvs(i int) []*mvccpb.KeyValue {
	if i >= len(a.replies) {
		return nil
	}
	return a.replies[i].GetResponseRange().GetKvs()
}

// kv is the one key that the i-th operation read, or nil.
func (a answer) kv(i int) *mvccpb.KeyValue {
	if kvs := a.kvs(i); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// count is how many keys the i-th operation saw.
func (a answer) count(i int) int {
	if i >= len(a.replies) {
		return 0
	}
	return int(a.replies[i].GetResponseRange().GetCount())
}

// change carries a transaction out, once: a lost answer is an unknown outcome, and is
// not asked for again (K-2.9). doing is a bare verb phrase.
func (s *Store) change(ctx context.Context, doing string, t txn) (answer, error) {
	got, sent, err := s.do(ctx, clientv3.OpTxn(t.compare, t.then, t.otherwise))
	if err != nil {
		return answer{}, classify(ctx, doing, sent, err)
	}
	return got, nil
}

// read reads all of ops at one revision, the cluster's newest.
func (s *Store) read(ctx context.Context, doing string, ops ...clientv3.Op) (answer, error) {
	got, _, err := s.do(ctx, clientv3.OpTxn(nil, ops, nil))
	if err != nil {
		return answer{}, classifyRead(ctx, doing, err)
	}
	return got, nil
}

func (s *Store) do(ctx context.Context, op clientv3.Op) (answer, bool, error) {
	if ctx.Err() != nil {
		return answer{}, false, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	ctx, sent := watchSending(clientv3.WithRequireLeader(ctx))
	got, err := s.kv.Do(ctx, op)
	if err != nil {
		return answer{}, sent.Load(), fmt.Errorf("ask the etcd cluster: %w", err)
	}
	response := got.Txn()
	return answer{
		done: response.Succeeded, revision: response.Header.Revision, cluster: response.Header.ClusterId, replies: response.Responses,
	}, true, nil
}

type sendingKey struct{}

// watchSending returns a context whose requests tell, by the flag, that they have been
// handed to a connection. Until then, nothing can have been carried out.
func watchSending(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sendingKey{}, sent), sent
}

// sentHandler raises that flag. The payload's event comes on the caller's own
// goroutine, after it was handed over and before the call can return.
type sentHandler struct{}

var _ stats.Handler = sentHandler{}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sentHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, out := event.(*stats.OutPayload); !out {
		return
	}
	if sent, ok := ctx.Value(sendingKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentHandler) HandleConn(context.Context, stats.ConnStats)                       {}
