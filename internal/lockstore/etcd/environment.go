package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// The mark of the environment is one key, as it is one row in lockdb: a profile and an
// address that do not belong together are noticed before anything is changed.

func (k keys) environment() string { return k.meta("environment") }

// inErrors is what errors call the cluster.
const inErrors = "etcd"

// CheckEnvironment returns an *instance.EnvironmentError unless what is below the
// prefix is marked as the configured environment, or not marked at all.
func (s *Store) CheckEnvironment(ctx context.Context, configured string) error {
	got, err := s.read(ctx, "read the environment mark of the etcd cluster", clientv3.OpGet(s.keys.environment()))
	if err != nil {
		return err
	}
	return sameEnvironment(got, configured)
}

// MarkEnvironment marks what is below the prefix, once: one that is marked otherwise is
// refused with an *instance.EnvironmentError. There is no migration that could do it, so
// whoever grants first under a named environment does.
func (s *Store) MarkEnvironment(ctx context.Context, name string) error {
	if err := instance.ValidEnvironment(name); err != nil {
		return fmt.Errorf("mark the etcd cluster: %w", err)
	}
	got, err := s.change(ctx, "mark the etcd cluster as environment "+name, txn{
		compare:   []clientv3.Cmp{absent(s.keys.environment())},
		then:      []clientv3.Op{clientv3.OpPut(s.keys.environment(), name)},
		otherwise: []clientv3.Op{clientv3.OpGet(s.keys.environment())},
	})
	if err != nil || got.done {
		return err
	}
	return sameEnvironment(got, name)
}

func sameEnvironment(got answer, configured string) error {
	kv := got.kv(0)
	if kv == nil || string(kv.Value) == configured {
		return nil
	}
	return &instance.EnvironmentError{Database: inErrors, Marked: string(kv.Value), Configured: configured}
}
