package lockstore

import (
	"encoding/json"
	"strconv"
	"time"
)

// MaxToken is the highest fencing token accepted at any edge: above 2^53 a
// token does not survive a JSON number, and one forged 2^63-1 would close an
// account for ever (K-1.6).
const MaxToken Token = 1 << 53

// Token is a fencing token: one value names one grant for all time (K-1.3).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// SessionID names a session. With its owner it is the right to re-enter the
// session's locks, hence a secret: print [SessionID.Masked] unless the reader
// is its owner or asked (K-2.12).
type SessionID string

// Masked returns enough of the id to tell two sessions apart, and no more.
func (s SessionID) Masked() string {
	if len(s) <= 8 {
		return "…"
	}
	return string(s[:8]) + "…"
}

// Session is a holder's life line: its locks die with it (K-2.4).
type Session struct {
	ID        SessionID `json:"session_id"`
	Owner     string    `json:"owner"`
	CreatedAt Time      `json:"created_at"`
	ExpiresAt Time      `json:"expires_at"`
	// Remaining is ExpiresAt less the database's now(); zero or less is lapsed.
	Remaining time.Duration `json:"-"`
	// Locks counts the entries that hang on the session.
	Locks int `json:"locks"`
	// Sent is the caller's clock before the request left it (K-2.10).
	Sent time.Time `json:"-"`
}

// Grant is a lock held: what acquire and renew answer, after their COMMIT.
type Grant struct {
	Key        string        `json:"key"`
	Token      Token         `json:"token"`
	Owner      string        `json:"owner,omitempty"`
	Session    SessionID     `json:"session_id,omitempty"`
	AcquiredAt Time          `json:"acquired_at,omitzero"`
	ExpiresAt  Time          `json:"expires_at"`
	TTL        time.Duration `json:"-"`
	// LockID is the grant's secret id, of acquire alone, where the backend has such
	// (Capabilities.LockIDs): whoever knows it can renew and release the grant.
	LockID string `json:"lock_id,omitempty"`
	// Sent is the caller's clock before BEGIN left it; monotonic reading kept.
	Sent time.Time `json:"-"`
}

// TrustedUntil is the latest moment of the caller's own clock at which it may
// still rely on the grant: counted from before the request was sent, so that
// the database's clock is always at or before it (K-2.10). The session bounds
// it too; the caller takes the smaller of the two.
func (g Grant) TrustedUntil() time.Time { return g.Sent.Add(g.TTL) }

// Entry is one row of the lock table as a reader sees it.
type Entry struct {
	Key        string    `json:"key"`
	Token      Token     `json:"token"`
	Owner      string    `json:"owner"`
	Session    SessionID `json:"session_id"`
	AcquiredAt Time      `json:"acquired_at"`
	ExpiresAt  Time      `json:"expires_at"`
	// Age and Remaining are counted by the database's now(), never the reader's.
	Age       time.Duration `json:"-"`
	Remaining time.Duration `json:"-"`
	// Expired tells that the lease has lapsed: the row is nobody's lock.
	Expired bool `json:"expired"`
	// State tells more than Expired where a lease is held past its end for a while
	// (Capabilities.Tolerance), and of an entry that cannot be read; empty elsewhere.
	State EntryState `json:"state,omitempty"`
	// KeyHash and LockIDHash are what SyncGuard's telemetry calls the key and the
	// grant; they hide neither. Empty elsewhere.
	KeyHash    string `json:"key_hash,omitempty"`
	LockIDHash string `json:"lock_id_hash,omitempty"`
	// Fence is the fence as its row has it where that is no token: Token is 0 then, and
	// LockIDHash alone names the grant. Empty elsewhere.
	Fence string `json:"fence,omitempty"`
	// SessionExpiresAt bounds the lease: a session's death releases its locks.
	SessionExpiresAt Time `json:"session_expires_at,omitzero"`
	// BlockedBy are the server processes that hold the key's row or its
	// advisory lock in an open transaction (K-2.11); filled by Show only.
	BlockedBy []int32 `json:"blocked_by,omitempty"`
	// Waiters are those who stand in a queue for the key, where the backend or the
	// lock server asked keeps one; of those who look again by themselves nobody knows.
	Waiters int `json:"waiters,omitempty"`
}

// EntryState says how an entry stands where a lease outlives its end for a while.
type EntryState string

// The states. InTolerance is past its end and held all the same; a stale entry is
// nobody's lock. Of an unreadable one the store knows key and token alone: it is granted
// to nobody until it is revoked.
const (
	Held        EntryState = "held"
	InTolerance EntryState = "in_tolerance"
	Stale       EntryState = "stale"
	Unreadable  EntryState = "unreadable"
)

// Release is the answer to a release.
type Release struct {
	Key   string `json:"key"`
	Token Token  `json:"token"`
	// Stale tells that the grant was no longer the caller's, and nothing was
	// deleted (K-2.6).
	Stale bool `json:"stale"`
}

// Outcome says what a revoke did.
type Outcome string

// The outcomes of a revoke (K-3.1).
const (
	Revoked    Outcome = "REVOKED"
	NotHeld    Outcome = "NOT_HELD"
	TokenMoved Outcome = "TOKEN_MOVED"
)

// LockOutcome is what force-revoke answers, and nothing else is called so
// (C1 1.3).
type LockOutcome struct {
	Outcome Outcome `json:"outcome"`
	Key     string  `json:"key"`
	// AuditID names the audit row; 0 unless revoked.
	AuditID int64 `json:"audit_id,omitempty"`
	// Owner and Token are the grant that was revoked, or, with TOKEN_MOVED,
	// the newer one that stands.
	Owner string `json:"owner,omitempty"`
	Token Token  `json:"token,omitempty"`
	// Presented is the token the operator saw.
	Presented Token `json:"presented_token"`
	// LockIDHash and PresentedHash are the same two of the grant's lock id, where the
	// backend has such.
	LockIDHash    string `json:"lock_id_hash,omitempty"`
	PresentedHash string `json:"presented_lock_id_hash,omitempty"`
	// Session is the holder's session; SessionEnded tells that it was ended, and
	// AlsoRevoked are the session's other grants, which went with it.
	Session      SessionID     `json:"session_id,omitempty"`
	SessionEnded bool          `json:"session_ended,omitempty"`
	AlsoRevoked  []LockOutcome `json:"also_revoked,omitempty"`
	// Fence is the token drawn for FenceAccounts, 0 for none (K-3.2).
	Fence Token `json:"fence,omitempty"`
}

// Revocation is one row of the audit table.
type Revocation struct {
	ID        int64  `json:"id"`
	Key       string `json:"key"`
	PrevOwner string `json:"prev_owner"`
	PrevToken Token  `json:"prev_token"`
	// LockIDHash and PrevFence are the entry's LockIDHash and Fence.
	LockIDHash    string `json:"lock_id_hash,omitempty"`
	PrevFence     string `json:"prev_fence,omitempty"`
	Operator      string `json:"operator"`
	Reason        string `json:"reason"`
	RevokedAt     Time   `json:"revoked_at"`
	LoginRole     string `json:"login_role"`
	ClientAddress string `json:"client_address,omitempty"`
}

// OperatorRecord is one link of the operator log (K-7.7).
type OperatorRecord struct {
	ID            int64           `json:"id"`
	LoggedAt      Time            `json:"logged_at"`
	Action        string          `json:"action"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	Token         Token           `json:"token,omitempty"`
	Details       json.RawMessage `json:"details"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

// ActionFenceAccount is the operator log's action of a revoke that drew a fence.
const ActionFenceAccount = "fence_account"

// GrantRecord is what the journal knows of one token (K-11).
type GrantRecord struct {
	Key       string    `json:"key"`
	Token     Token     `json:"token"`
	Owner     string    `json:"owner"`
	Session   SessionID `json:"session_id"`
	GrantedAt Time      `json:"granted_at"`
	EndedAt   Time      `json:"ended_at,omitzero"`
	// Ended says how: released, expired, taken_over, re_entered, revoked, reaped
	// or voided; empty while the grant stands.
	Ended string `json:"ended,omitempty"`
}

// AuditReport is what VerifyAudit found.
type AuditReport struct {
	Revocations int64          `json:"revocations"`
	Records     int64          `json:"operator_records"`
	Findings    []AuditFinding `json:"findings"`
}

// AuditFinding is one sign that the audit is not what was written.
type AuditFinding struct {
	// ID is stable: chain_broken, chain_gap, revocation_missing,
	// revocation_unexplained, guard_off.
	ID string `json:"id"`
	// Where names the first row concerned; What says what is wrong with it.
	Where string `json:"where"`
	What  string `json:"what"`
}

// Time is a database timestamp, in UTC. PostgreSQL's infinity, which a row
// written by hand may hold (K-2.5), is Infinite and prints as "infinity".
type Time struct {
	time.Time
	Infinite bool
}

// MarshalJSON writes RFC 3339 in UTC with microseconds, or "infinity".
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// IsZero tells whether there is no time at all; json's omitzero asks it.
func (t Time) IsZero() bool { return !t.Infinite && t.Time.IsZero() }

// String returns RFC 3339 in UTC with microseconds, or "infinity".
func (t Time) String() string {
	if t.Infinite {
		return "infinity"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}
