package etcd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// What the keys hold, as JSON. The times are the writer's clock (WriterTimes).

// lockRecord is the value of a lock's key. Its token is the key's ModRevision.
type lockRecord struct {
	Key        string              `json:"key"`
	Owner      string              `json:"owner"`
	Session    lockstore.SessionID `json:"session_id"`
	AcquiredAt time.Time           `json:"acquired_at"`
}

// grantRecord is the journal's word on a grant that has ended.
type grantRecord struct {
	lockRecord
	EndedAt time.Time `json:"ended_at"`
	Ended   string    `json:"ended"`
}

// sessionRecord is the value of a session's key.
type sessionRecord struct {
	Owner     string    `json:"owner"`
	CreatedAt time.Time `json:"created_at"`
}

// lifeRecord is the value of the key that hangs on the session's lease.
type lifeRecord struct {
	// Seconds is what the lease is renewed to.
	Seconds int64 `json:"ttl_seconds"`
}

// How a grant ended; the words of PostgreSQL's journal.
const (
	endReleased  = "released"
	endExpired   = "expired"
	endTakenOver = "taken_over"
	endReEntered = "re_entered"
	endRevoked   = "revoked"
	endReaped    = "reaped"
	endVoided    = "voided"
)

// standing is a lock's key as it was read.
type standing struct {
	lockRecord
	token lockstore.Token
	// name is the etcd key, empty for the one that the lock's key has.
	name string
	// odd is why the value is no record of a lock, "" for one that is. Of one that is not
	// nothing but key and token is known.
	odd string
}

// readLock reads a lock's key. A value that is no record of it, by somebody's hand or a
// program's fault, stands like a lock that nobody is known to hold: it keeps everybody
// from the key until an operator revokes it.
func (k keys) readLock(kv *mvccpb.KeyValue) standing {
	lock := standing{token: lockstore.Token(kv.ModRevision), name: string(kv.Key)}
	if err := json.Unmarshal(kv.Value, &lock.lockRecord); err != nil {
		lock.odd = err.Error()
	} else if k.lock(lock.Key) != lock.name || lock.Session == "" {
		lock.odd = "it is not this lock's record"
	}
	if lock.odd != "" {
		lock.lockRecord = lockRecord{Key: k.keyOf(lock.name)}
	}
	return lock
}

// unreadable refuses what needs the holder of a lock whose value cannot be read.
func (l standing) unreadable() error {
	return &lockstore.UnsafeError{
		Clause: "K-10.1", Problem: fmt.Sprintf("lock %q has a value in etcd that cannot be read, so that nobody acquires it: %s", l.Key, l.odd),
		Fix: "find out who wrote it, then take it away, with an audit record: dlockctl revoke KEY --any-token --reason TEXT",
	}
}

// nameOf is the etcd key of a lock.
func (k keys) nameOf(lock standing) string { return cmp.Or(lock.name, k.lock(lock.Key)) }

// nameless tells that no lock has this etcd key: nothing that asks by a lock's key finds it,
// a revoke neither.
func (k keys) nameless(lock standing) bool { return k.lock(lock.Key) != k.nameOf(lock) }

// asSeen holds while the lock is the one that was read.
func (k keys) asSeen(lock standing) clientv3.Cmp { return unchanged(k.nameOf(lock), int64(lock.token)) }

// readSession reads a session's record. The error does not name the key, for it holds the
// session's id, which is a secret (K-2.12).
func readSession(kv *mvccpb.KeyValue) (sessionRecord, error) {
	var record sessionRecord
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		return sessionRecord{}, fmt.Errorf("read the session's record: %w", err)
	}
	return record, nil
}

func decode(kv *mvccpb.KeyValue, into any) error {
	if err := json.Unmarshal(kv.Value, into); err != nil {
		return fmt.Errorf("read the etcd key %q: %w", kv.Key, err)
	}
	return nil
}

// encode writes a record of this package: it holds nothing that JSON has not.
func encode(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// now is the time that records and answers show to people.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func shown(t time.Time) lockstore.Time { return lockstore.Time{Time: t.UTC()} }
