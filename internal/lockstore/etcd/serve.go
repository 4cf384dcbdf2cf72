package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// CheckGrants asks again what Open asks before it grants, for a server that has opened
// the store to change and grants when it may: that a quorum answers, that the gate is
// open, and that no sign of a rewind has fired. It returns what Open does.
func (s *Store) CheckGrants(ctx context.Context) error {
	if _, err := s.admit(ctx); err != nil {
		return err
	}
	got, err := s.read(ctx, "look whether the etcd cluster grants", clientv3.OpGet(s.keys.gate()), clientv3.OpGet(s.keys.floor()))
	if err != nil {
		return err
	}
	if err := closed(got.kv(0)); err != nil {
		return err
	}
	return aboveFloor(lockstore.Token(got.revision), got.kv(1))
}
