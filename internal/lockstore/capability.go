package lockstore

import (
	"strconv"
	"time"
)

// MaxBatch is the most keys that one batch may hold (K-2.4).
const MaxBatch = 64

// Capabilities declare how a backend differs. What is the same everywhere, one
// holder per key and a token that rises with each grant of a key, is not a
// capability. docs/backends.md prints them all.
type Capabilities struct {
	// Backend is its name in configuration and output.
	Backend string `json:"backend"`
	// Sessions: locks hang on sessions and die with them; the same session
	// re-enters. Without it Session in AcquireParams is empty.
	Sessions bool `json:"sessions"`
	// GlobalTokens: a token is unique and ordered over all keys, not per key only.
	GlobalTokens bool `json:"global_tokens"`
	// OwnTTL: each lock has a lease of its own, not its session's. Without it Renew
	// confirms the grant and extends the session.
	OwnTTL bool `json:"own_ttl"`
	// Batches: AcquireBatch is one transaction.
	Batches bool `json:"batches"`
	// Journal: GrantHistory knows who held an old token, and how it ended.
	Journal bool `json:"journal"`
	// Ownerless: the backend's rows name no owner. Owner is not kept, is empty in
	// every answer, and to narrow by it is ErrUnsupported.
	Ownerless bool `json:"ownerless,omitempty"`
	// LockIDs: each grant has a secret id, by which another library that works on
	// the same rows renews and releases it; see [Grant].
	LockIDs bool `json:"lock_ids,omitempty"`
	// Tolerance is how long past its end a lease still counts as held.
	Tolerance time.Duration `json:"-"`
	// PruneAfter is how long past the end of its lease Prune leaves an entry at least,
	// whatever age is asked for.
	PruneAfter time.Duration `json:"-"`

	// The rest is zero for a backend that is like PostgreSQL in it.

	// LeaseStep is what leases are rounded up to; 0 for exact ones.
	LeaseStep time.Duration `json:"-"`
	// WriterTimes: the backend has no time of day. The times in answers are those of
	// whoever wrote or reads them, and nothing is decided by them.
	WriterTimes bool `json:"writer_times,omitempty"`
	// EndsUntimed: it is not known when a lapsed lease ended. Prune takes what has
	// lapsed by now, and answers ErrUnsupported when it is asked for an age.
	EndsUntimed bool `json:"ends_untimed,omitempty"`
	// BulkLimit is the most grants that one revoke takes; 0 for no bound. More are
	// answered with ErrUnsupported, and nothing is changed.
	BulkLimit int `json:"bulk_limit,omitempty"`
}

// CapabilityRows is the table of what backends declare: a head with their names, and a
// line for each capability that begins with its meaning.
func CapabilityRows(backends ...Capabilities) [][]string {
	yes := func(has func(Capabilities) bool) func(Capabilities) string {
		return func(c Capabilities) string {
			if has(c) {
				return "yes"
			}
			return "no"
		}
	}
	rows := [][]string{{""}}
	for _, backend := range backends {
		rows[0] = append(rows[0], backend.Backend)
	}
	for _, line := range []struct {
		meaning string
		says    func(Capabilities) string
	}{
		{"locks hang on sessions, die with them, and the session re-enters", yes(func(c Capabilities) bool { return c.Sessions })},
		{"a token is unique and ordered over all keys", yes(func(c Capabilities) bool { return c.GlobalTokens })},
		{"each lock has a lease of its own", yes(func(c Capabilities) bool { return c.OwnTTL })},
		{"leases are rounded up to", func(c Capabilities) string { return orNo(c.LeaseStep.String(), c.LeaseStep == 0) }},
		{"a lease counts as held past its end for", func(c Capabilities) string { return orNo(c.Tolerance.String(), c.Tolerance == 0) }},
		{"many locks in one transaction (`batch`)", yes(func(c Capabilities) bool { return c.Batches })},
		{"the most grants that one revoke takes", func(c Capabilities) string { return orNo(strconv.Itoa(c.BulkLimit), c.BulkLimit == 0) }},
		{"`lock prune` chooses by age", yes(func(c Capabilities) bool { return !c.EndsUntimed })},
		{"`lock prune` leaves what lapsed less ago than", func(c Capabilities) string { return orNo(c.PruneAfter.String(), c.PruneAfter == 0) }},
		{"`token explain` knows who held an old token, and how it ended", yes(func(c Capabilities) bool { return c.Journal })},
		{"a lock names its owner", yes(func(c Capabilities) bool { return !c.Ownerless })},
		{"a grant has a secret id that another library works with", yes(func(c Capabilities) bool { return c.LockIDs })},
		{"times in answers are the server's", yes(func(c Capabilities) bool { return !c.WriterTimes })},
	} {
		row := []string{line.meaning}
		for _, backend := range backends {
			row = append(row, line.says(backend))
		}
		rows = append(rows, row)
	}
	return rows
}

func orNo(text string, none bool) string {
	if none {
		return "–"
	}
	return text
}
