package app

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

// etcdRightRules is the row of a user that may not. It comes before those of the stores:
// to a store, who is refused so is one that was not reached.
func etcdRightRules() []rule {
	return []rule{
		typedIf("EtcdError", Refused, "permission_denied",
			func(e rpctypes.EtcdError) bool { return e.Code() == codes.PermissionDenied },
			func(rpctypes.EtcdError) (string, any) {
				return "the user of etcd lacks a right: its role needs readwrite on the prefix (docs/etcd.md)", nil
			}),
	}
}

// etcdRules are the rows of what else a cluster answers of its own.
func etcdRules() []rule {
	return []rule{
		typed("EtcdError", Unexpected, "etcd", func(e rpctypes.EtcdError) (string, any) {
			if errors.Is(e, rpctypes.ErrNoSpace) {
				return "the cluster takes no write at all until it has room: dlockctl doctor says what to do", nil
			}
			return "", nil
		}),
	}
}
