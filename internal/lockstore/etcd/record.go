package etcd

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

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
}

func decodeLock(kv *mvccpb.KeyValue) (standing, error) {
	lock := standing{token: lockstore.Token(kv.ModRevision)}
	return lock, decode(kv, &lock.lockRecord)
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
