package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// The comparisons that changes are made of.

func absent(name string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(name), "=", 0)
}

func present(name string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(name), ">", 0)
}

// unchanged compares a key with the revision at which it was read; 0 for one that was
// not there.
func unchanged(name string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(name), "=", revision)
}

// nothingNewer holds while no key below a prefix has been written since a revision.
func nothingNewer(prefix string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(prefix), "<", revision+1).WithPrefix()
}

// stands holds while the key's grant is the one with this very token.
func (k keys) stands(key string, token lockstore.Token) clientv3.Cmp {
	return unchanged(k.lock(key), int64(token))
}
