package etcd_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// meddler stands between one client and the cluster: it takes a part out of the
// client's transactions, and stops one before it leaves.
type meddler struct {
	mu sync.Mutex
	// what is taken out: "compare NAME" or "put NAME", with the beginning of a key.
	what string
	// skip counts the changes that are left alone before either is done.
	skip          int
	reached, goOn chan struct{}
	taken         atomic.Int32
}

func (m *meddler) without(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what = what
}

// after leaves the next n changes alone.
func (m *meddler) after(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skip = n
}

// stop has the next change wait, which closes reached, until goOn is closed.
func (m *meddler) stop() (reached, goOn chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached, m.goOn = make(chan struct{}), make(chan struct{})
	return m.reached, m.goOn
}

func (m *meddler) between(kv clientv3.KV) clientv3.KV {
	return between{kv, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		if !isChange(op) {
			return next.Do(ctx, op)
		}
		m.mu.Lock()
		if m.skip > 0 {
			m.skip--
			m.mu.Unlock()
			return next.Do(ctx, op)
		}
		reached, goOn, what := m.reached, m.goOn, m.what
		m.reached, m.goOn = nil, nil
		m.mu.Unlock()
		if reached != nil {
			close(reached)
			<-goOn
		}
		return next.Do(ctx, m.less(op, what))
	}}
}

// less is the transaction without the part; nested ones have neither.
func (m *meddler) less(op clientv3.Op, what string) clientv3.Op {
	kind, name, _ := strings.Cut(what, " ")
	compare, then, otherwise := op.Txn()
	var kept []clientv3.Cmp
	for _, cmp := range compare {
		if kind == "compare" && strings.HasPrefix(string(cmp.KeyBytes()), name) {
			m.taken.Add(1)
			continue
		}
		kept = append(kept, cmp)
	}
	var ops []clientv3.Op
	for _, op := range then {
		if kind == "put" && op.IsPut() && strings.HasPrefix(string(op.KeyBytes()), name) {
			m.taken.Add(1)
			continue
		}
		ops = append(ops, op)
	}
	return clientv3.OpTxn(kept, ops, otherwise)
}
