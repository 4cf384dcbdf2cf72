package etcd

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Between makes a store ask the cluster through what a test puts between.
func Between(opts Options, between func(clientv3.KV) clientv3.KV) Options {
	opts.between = between
	return opts
}

// Reconnected is what a store is told when a connection was made anew.
func Reconnected(s *Store) { s.detector.connections.Add(1) }

// Sent tells the store that a request was handed to a connection.
func Sent(ctx context.Context) { ctx.Value(sendingKey{}).(*atomic.Bool).Store(true) }

// VoidLocks is the step of a fast-forward that ends every lock.
func VoidLocks(ctx context.Context, s *Store, operator, reason string) (int, error) {
	return (&Rewinder{store: s}).voidLocks(ctx, lockstore.AdvanceParams{Operator: operator, Reason: reason})
}
