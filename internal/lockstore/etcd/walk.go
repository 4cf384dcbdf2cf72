package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is how many keys a walk reads at a time.
const page = 500

// walk is a range of keys that is read page by page, all of it at one revision.
type walk struct {
	first, last string
	newestFirst bool
	// revision is filled in by the first page; one that is set before is kept to.
	revision int64
}

// walk reads until tell says that it has enough.
func (s *Store) walk(ctx context.Context, doing string, w *walk, tell func(*mvccpb.KeyValue) (bool, error)) error {
	order := clientv3.SortAscend
	if w.newestFirst {
		order = clientv3.SortDescend
	}
	for first, last := w.first, w.last; ; {
		got, err := s.read(ctx, doing, clientv3.OpGet(first, clientv3.WithRange(last),
			clientv3.WithSort(clientv3.SortByKey, order), clientv3.WithLimit(page), clientv3.WithRev(w.revision)))
		if err != nil {
			return err
		}
		if w.revision == 0 {
			w.revision = got.revision
		}
		kvs := got.kvs(0)
		for _, kv := range kvs {
			if more, err := tell(kv); err != nil || !more {
				return err
			}
		}
		switch {
		case len(kvs) < page:
			return nil
		case w.newestFirst:
			last = string(kvs[len(kvs)-1].Key)
		default:
			first = string(kvs[len(kvs)-1].Key) + "\x00"
		}
	}
}

// numberAfter is the number that follows a prefix in a key's name.
func numberAfter(prefix string, kv *mvccpb.KeyValue) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), prefix), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the number in the etcd key %q: %w", kv.Key, err)
	}
	return n, nil
}
