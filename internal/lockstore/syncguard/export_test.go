package syncguard

import (
	"io/fs"
	"strings"
)

// What the vectors of the library are compared with.
var (
	StorageKey    = storageKey
	TelemetryHash = telemetryHash
	NewLockID     = newLockID
	FenceText     = fenceText
	FenceToken    = fenceToken
	Live          = live
)

// KeysOf are the keys of a lock's row and of its counter.
func KeysOf(key string) (lock, fence string, err error) {
	k, err := keysOf(key)
	return k.lock, k.fence, err
}

// QueryFiles are the statements as they are written.
func QueryFiles() fs.FS { return queryFiles }

// Queries returns every statement of a store by name, as it is sent.
func (s *Store) Queries() map[string]string {
	queries := map[string]string{"verify_audit": verifyAuditQuery, "check_table": checkTableQuery, "acts": actsQuery}
	for name, sql := range s.byName() {
		queries[name] = *sql
	}
	return queries
}

// Less takes a part of a statement out of this store alone, and tells whether it
// was there once.
func (s *Store) Less(query, part, instead string) bool {
	sql, known := s.byName()[query]
	if !known || strings.Count(*sql, part) != 1 {
		return false
	}
	*sql = strings.Replace(*sql, part, instead, 1)
	return true
}

func (s *Store) byName() map[string]*string {
	q := &s.sql
	return map[string]*string{
		"lock_key": &q.lockKey, "clock": &q.clock, "standing": &q.standing, "own": &q.own, "make_counter": &q.makeCounter, "draw": &q.draw,
		"counter": &q.counter, "grant": &q.grant, "extend": &q.extend, "delete": &q.delete, "list_entries": &q.listEntries, "blockers": &q.blockers,
		"revoke": &q.revoke, "lock_entries": &q.selectEntries, "revoke_many": &q.revokeMany, "prune": &q.prune,
		"list_revocations": &q.listRevocations, "list_operator_log": &q.listOperatorLog, "count_audit": &q.countAudit,
	}
}
