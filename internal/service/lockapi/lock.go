package lockapi

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// AcquireRequest is one try for a lock, or a wait for it.
type AcquireRequest struct {
	Key       string `json:"key" doc:"Lock key" example:"account:42"`
	SessionID string `json:"session_id" doc:"The caller's session; its owner becomes the holder"`
	TTLMS     int64  `json:"ttl_ms" doc:"Lease in milliseconds, 100 to 86400000" example:"30000"`
	WaitMS    int64  `json:"wait_ms,omitempty" doc:"Wait so long for the lock to become free; 0 tries once"`
}

// Grant is a lock held, as acquire and renew answer it, after the commit (K-1.4).
// What the caller may trust it counts from before it sent the request (K-2.10).
type Grant struct {
	Key string `json:"key"`
	Token
	Owner      string `json:"owner,omitempty"`
	AcquiredAt Time   `json:"acquired_at,omitempty"`
	ExpiresAt  Time   `json:"expires_at" doc:"By lockdb's clock; a client trusts ttl_ms from before it sent the request, and never this"`
	TTLMS      int64  `json:"ttl_ms"`
}

// NewGrant writes a grant.
func NewGrant(g lockstore.Grant) Grant {
	return Grant{g.Key, NewToken(g.Token), g.Owner, NewTime(g.AcquiredAt), NewTime(g.ExpiresAt), Milliseconds(g.TTL)}
}

// Value reads a grant; session and sent are what the caller knows of it.
func (g Grant) Value(session lockstore.SessionID, sent time.Time) (lockstore.Grant, error) {
	grant := lockstore.Grant{Key: g.Key, Token: g.Token.Token, Owner: g.Owner, Session: session, TTL: time.Duration(g.TTLMS) * time.Millisecond, Sent: sent}
	var err error
	if grant.AcquiredAt, err = g.AcquiredAt.Value(); err != nil {
		return lockstore.Grant{}, err
	}
	grant.ExpiresAt, err = g.ExpiresAt.Value()
	return grant, err
}

// RenewRequest extends a grant; its token is in the header.
type RenewRequest struct {
	Key       string `json:"key" doc:"Lock key"`
	SessionID string `json:"session_id,omitempty" doc:"The session that holds it. When left out, the entry's owner must be the caller's"`
	TTLMS     int64  `json:"ttl_ms" doc:"Lease from now in milliseconds; it never shortens"`
}

// ReleaseRequest gives a grant back; its token is in the header.
type ReleaseRequest struct {
	Key       string `json:"key" doc:"Lock key"`
	SessionID string `json:"session_id,omitempty" doc:"The session that holds it. When left out, the entry's owner must be the caller's"`
}

// Release answers a release.
type Release struct {
	Key string `json:"key"`
	Token
	Stale bool `json:"stale" doc:"The grant was no longer the caller's, and nothing was deleted (K-2.6)"`
}

// NewRelease writes a release.
func NewRelease(r lockstore.Release) Release { return Release{r.Key, NewToken(r.Token), r.Stale} }

// Value reads a release.
func (r Release) Value() lockstore.Release {
	return lockstore.Release{Key: r.Key, Token: r.Token.Token, Stale: r.Stale}
}

// AcquireBatchRequest tries for many keys in one transaction, at most 64.
type AcquireBatchRequest struct {
	Locks []AcquireItem `json:"locks" doc:"At most 64 keys, each once"`
}

// AcquireItem is one try of a batch.
type AcquireItem struct {
	Key       string `json:"key"`
	SessionID string `json:"session_id"`
	TTLMS     int64  `json:"ttl_ms"`
}

// AcquireBatchResponse answers each by itself, in the order given.
type AcquireBatchResponse struct {
	Results []AcquireResult `json:"results"`
}

// AcquireResult is a grant or the problem that stood in its way.
type AcquireResult struct {
	Grant   *Grant         `json:"grant,omitempty"`
	Problem *NestedProblem `json:"problem,omitempty"`
}

// ReleaseBatchRequest gives many grants back in one transaction, at most 64.
type ReleaseBatchRequest struct {
	Grants []GrantRef `json:"grants" doc:"At most 64 grants"`
}

// GrantRef names one grant; one of token and token_str is needed.
type GrantRef struct {
	Key       string          `json:"key"`
	Token     lockstore.Token `json:"token,omitempty"`
	TokenStr  string          `json:"token_str,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
}

// ReleaseBatchResponse answers each by itself, in the order given.
type ReleaseBatchResponse struct {
	Results []Release `json:"results"`
}

// Entry is one row of the lock table.
type Entry struct {
	Key string `json:"key"`
	Token
	Owner       string `json:"owner"`
	SessionID   string `json:"session_id" doc:"Masked, unless show_session asks for it"`
	AcquiredAt  Time   `json:"acquired_at"`
	ExpiresAt   Time   `json:"expires_at"`
	AgeMS       int64  `json:"age_ms"`
	RemainingMS int64  `json:"remaining_ms" doc:"By lockdb's clock"`
	Expired     bool   `json:"expired" doc:"The lease has lapsed: nobody's lock"`
	// State is the store's, empty for one that Expired tells all of.
	State lockstore.EntryState `json:"state,omitempty" doc:"unreadable: the value in etcd is no record of a lock, so that nobody acquires it until it is revoked"`
	// SessionExpiresAt bounds the lease.
	SessionExpiresAt Time    `json:"session_expires_at,omitempty"`
	BlockedBy        []int32 `json:"blocked_by,omitempty" doc:"Server processes that keep the key in an open transaction"`
	Waiters          int     `json:"waiters,omitempty" doc:"Calls that stand in the queue for the key"`
}

// NewEntry writes an entry; its session id in full only when show says so
// (K-2.12).
func NewEntry(e lockstore.Entry, show bool) Entry {
	return Entry{
		e.Key, NewToken(e.Token), e.Owner, sessionText(e.Session, show), NewTime(e.AcquiredAt), NewTime(e.ExpiresAt),
		Milliseconds(e.Age), Milliseconds(e.Remaining), e.Expired, e.State, NewTime(e.SessionExpiresAt), e.BlockedBy, e.Waiters,
	}
}

// Value reads an entry.
func (e Entry) Value() (lockstore.Entry, error) {
	entry := lockstore.Entry{
		Key: e.Key, Token: e.Token.Token, Owner: e.Owner, Session: lockstore.SessionID(e.SessionID), Expired: e.Expired, State: e.State, BlockedBy: e.BlockedBy, Waiters: e.Waiters,
		Age: time.Duration(e.AgeMS) * time.Millisecond, Remaining: time.Duration(e.RemainingMS) * time.Millisecond,
	}
	return entry, times(
		timeTo{e.AcquiredAt, &entry.AcquiredAt}, timeTo{e.ExpiresAt, &entry.ExpiresAt}, timeTo{e.SessionExpiresAt, &entry.SessionExpiresAt})
}

// EntryList answers a list.
type EntryList struct {
	Locks []Entry `json:"locks"`
}

// Pulse is what happened up to a moment (lockstore.Meter).
type Pulse struct {
	Last    lockstore.Token `json:"last" doc:"The highest token drawn; ask again with it"`
	LastStr string          `json:"last_str" doc:"The same as text"`
	Grants  int             `json:"grants" doc:"Grants with a token above since"`
	Waiting int             `json:"waiting" doc:"Server processes that wait for another's transaction; in etcd, those who stand in its queues"`
}

// NewPulse writes a pulse.
func NewPulse(p lockstore.Pulse) Pulse { return Pulse{p.Last, p.Last.String(), p.Grants, p.Waiting} }

// Value reads a pulse.
func (p Pulse) Value() lockstore.Pulse {
	return lockstore.Pulse{Last: p.Last, Grants: p.Grants, Waiting: p.Waiting}
}

// Change is one event of a watch.
type Change struct {
	Change lockstore.ChangeKind `json:"change" enum:"held,renewed,lapsed,gone"`
	Entry
}

type timeTo struct {
	text Time
	to   *lockstore.Time
}

func times(reads ...timeTo) error {
	for _, r := range reads {
		t, err := r.text.Value()
		if err != nil {
			return err
		}
		*r.to = t
	}
	return nil
}

func sessionText(id lockstore.SessionID, show bool) string {
	if show || id == "" {
		return string(id)
	}
	return id.Masked()
}
