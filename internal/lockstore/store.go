package lockstore

import (
	"context"
	"time"
)

// Store keeps fenced locks. Every method is one transaction of its own and
// returns only after its COMMIT (K-1.4, K-2.10). See the package comment for
// which error means what.
//
// A backend that lacks something says so in Capabilities and answers the
// methods concerned with an error that wraps ErrUnsupported; it never pretends.
type Store interface {
	// Capabilities declares what differs between backends.
	Capabilities() Capabilities

	// CreateSession opens a session for owner that lapses after ttl.
	CreateSession(ctx context.Context, owner string, ttl time.Duration) (Session, error)
	// Heartbeat extends a live session to ttl from now, never shortens it.
	// Returns ErrSessionLost when it has lapsed.
	Heartbeat(ctx context.Context, id SessionID, ttl time.Duration) (Session, error)
	// EndSession deletes a session, whose locks go with it; it returns how many
	// went. Returns ErrNotFound when there is none.
	EndSession(ctx context.Context, id SessionID) (int, error)
	// ReapSessions deletes at most limit lapsed sessions with their locks. An error
	// beside a count came after these were gone.
	ReapSessions(ctx context.Context, limit int) (Reaped, error)
	// Session returns one session, or ErrNotFound.
	Session(ctx context.Context, id SessionID) (Session, error)
	// Sessions lists sessions by creation.
	Sessions(ctx context.Context, filter SessionFilter) ([]Session, error)

	// Acquire tries once (K-2.8). The same owner and session re-enter with a
	// new, higher token, and the older token is dead (K-2.2).
	Acquire(ctx context.Context, params AcquireParams) (Grant, error)
	// Renew extends the grant to ttl from now, never shortens it. Returns
	// ErrLockLost when it is no longer the caller's.
	Renew(ctx context.Context, key string, token Token, ttl time.Duration) (Grant, error)
	// Release deletes the grant of this very token, or nothing (K-2.7).
	Release(ctx context.Context, key string, token Token) (Release, error)

	// AcquireBatch tries for many keys in one transaction and answers each by
	// itself, in the order given: one that is blocked or refused is taken out
	// and the others go on (K-2.4). At most MaxBatch keys, each once.
	AcquireBatch(ctx context.Context, params []AcquireParams) ([]AcquireResult, error)
	// ReleaseBatch releases many grants in one transaction, in the order given.
	ReleaseBatch(ctx context.Context, refs []GrantRef) ([]Release, error)

	// List returns entries by key.
	List(ctx context.Context, filter Filter) ([]Entry, error)
	// Show returns one entry, or ErrNotFound.
	Show(ctx context.Context, key string) (Entry, error)

	// Revoke deletes the grant the operator saw and writes its audit row, or
	// does neither (K-3.1).
	Revoke(ctx context.Context, params RevokeParams) (LockOutcome, error)
	// RevokeMany revokes every grant that the filter selects in one
	// transaction, with an audit row each. Returns *CountMovedError, and changes
	// nothing, when their number is not the one expected (K-3.4).
	RevokeMany(ctx context.Context, params RevokeManyParams) ([]LockOutcome, error)
	// Prune deletes entries whose lease ended more than olderThan ago, at most
	// limit of them, and returns what it deleted.
	Prune(ctx context.Context, olderThan time.Duration, limit int) ([]Entry, error)

	// Revocations lists audit rows, newest first.
	Revocations(ctx context.Context, filter RevocationFilter) ([]Revocation, error)
	// Revocation returns one audit row, or ErrNotFound.
	Revocation(ctx context.Context, id int64) (Revocation, error)

	// OperatorLog lists what operators did to the whole database and not to one
	// grant, newest first.
	OperatorLog(ctx context.Context, filter OperatorLogFilter) ([]OperatorRecord, error)
	// VerifyAudit looks for rows taken out of, or rewritten in, the audit.
	VerifyAudit(ctx context.Context) (AuditReport, error)
	// GrantHistory returns what the journal knows of a token, or ErrNotFound.
	GrantHistory(ctx context.Context, token Token) (GrantRecord, error)

	// Close releases the store's connections.
	Close()
}

// AcquireParams is one try for a lock.
type AcquireParams struct {
	Key     string
	Owner   string
	Session SessionID
	TTL     time.Duration
}

// AcquireResult is one answer of a batch: a grant or its error.
type AcquireResult struct {
	Grant Grant
	Err   error
}

// GrantRef names one grant.
type GrantRef struct {
	Key   string
	Token Token
}

// RevokeParams is one force-revoke. Operator and Reason must not be blank
// (K-3.3); Token is the one the operator saw.
type RevokeParams struct {
	Key   string
	Token Token
	// LockIDHash names the grant by the hash of its secret id, as Entry has it, where
	// the backend has such (Capabilities.LockIDs). Beside it Token may be 0, as that of
	// a row whose fence is none; where both are given, both must be the row's.
	LockIDHash string
	Operator   string
	Reason     string
	// EndSession ends the holder's session too, with all its locks, an audit
	// row each: otherwise it can simply acquire again (K-3.5).
	EndSession bool
	// FenceAccounts draws a token above every grant of the key, to which the
	// fences of these accounts are to be raised: revoking alone does not stop
	// the holder's writes (K-3.2).
	FenceAccounts []string
}

// RevokeManyParams is one bulk revoke.
type RevokeManyParams struct {
	// Filter selects; it must narrow by owner, prefix or session.
	Filter   Filter
	Operator string
	Reason   string
	// Expect is how many grants the operator saw.
	Expect int
}

// Filter narrows List; the zero value lists everything.
type Filter struct {
	Owner   string
	Prefix  string
	Session SessionID
	// Expired lists lapsed entries only.
	Expired bool
	// Limit bounds the answer; 0 means no bound.
	Limit int
}

// SessionFilter narrows Sessions; the zero value lists everything.
type SessionFilter struct {
	Owner   string
	Expired bool
	Limit   int
}

// RevocationFilter narrows Revocations; the zero value lists everything.
type RevocationFilter struct {
	Key      string
	Operator string
	// After lists rows with a higher id, oldest first, to follow the audit.
	After *int64
	Limit int
}

// OperatorLogFilter narrows OperatorLog; the zero value lists everything.
type OperatorLogFilter struct {
	Action string
	// After lists records with a higher id, oldest first, to follow the log.
	After *int64
	Limit int
}

// Reaped is what one pass of the reaper deleted.
type Reaped struct {
	Sessions int `json:"sessions"`
	Locks    int `json:"locks"`
}
