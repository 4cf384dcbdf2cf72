package lockstore

import (
	"context"
	"time"
)

// Store keeps fenced locks. Every method is one transaction of its own and
// returns only after its COMMIT (K-1.4, K-2.10). See the package comment for
// which error means what.
type Store interface {
	// CreateSession opens a session for owner that lapses after ttl.
	CreateSession(ctx context.Context, owner string, ttl time.Duration) (Session, error)
	// Heartbeat extends a live session to ttl from now, never shortens it.
	// Returns ErrSessionLost when it has lapsed.
	Heartbeat(ctx context.Context, id SessionID, ttl time.Duration) (Session, error)
	// EndSession deletes a session, whose locks go with it; it returns how many
	// went. Returns ErrNotFound when there is none.
	EndSession(ctx context.Context, id SessionID) (int, error)
	// ReapSessions deletes at most limit lapsed sessions with their locks.
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

	// List returns entries by key.
	List(ctx context.Context, filter Filter) ([]Entry, error)
	// Show returns one entry, or ErrNotFound.
	Show(ctx context.Context, key string) (Entry, error)

	// Revoke deletes the grant the operator saw and writes its audit row, or
	// does neither (K-3.1).
	Revoke(ctx context.Context, params RevokeParams) (LockOutcome, error)
	// Revocations lists audit rows, newest first.
	Revocations(ctx context.Context, filter RevocationFilter) ([]Revocation, error)
	// Revocation returns one audit row, or ErrNotFound.
	Revocation(ctx context.Context, id int64) (Revocation, error)

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

// RevokeParams is one force-revoke. Operator and Reason must not be blank
// (K-3.3); Token is the one the operator saw.
type RevokeParams struct {
	Key      string
	Token    Token
	Operator string
	Reason   string
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
	Limit    int
}

// Reaped is what one pass of the reaper deleted.
type Reaped struct {
	Sessions int `json:"sessions"`
	Locks    int `json:"locks"`
}
