package lockapi

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// CreateSessionRequest opens a session. With a credential, the session's owner is
// the credential's name, a slash, and the owner asked for (K-2.12).
type CreateSessionRequest struct {
	Owner string `json:"owner" doc:"Who holds the locks" example:"worker-7"`
	TTLMS int64  `json:"ttl_ms" doc:"How long it lives without a heartbeat, in milliseconds" example:"30000"`
}

// HeartbeatRequest extends a session, and never shortens it.
type HeartbeatRequest struct {
	SessionID string `json:"session_id"`
	TTLMS     int64  `json:"ttl_ms"`
}

// SessionRequest names a session, in a body, for its id is a secret.
type SessionRequest struct {
	SessionID string `json:"session_id"`
}

// SessionLocksRequest asks for the locks under one session, in a body, for its id is a
// secret.
type SessionLocksRequest struct {
	SessionID   string `json:"session_id"`
	Owner       string `json:"owner,omitempty" doc:"Only locks of this owner, as it stands in the database"`
	Prefix      string `json:"prefix,omitempty" doc:"Only keys that begin so"`
	Expired     bool   `json:"expired,omitempty" doc:"Only lapsed ones"`
	Limit       int    `json:"limit,omitempty" minimum:"0" doc:"At most so many; 0 is all"`
	ShowSession bool   `json:"show_session,omitempty" doc:"Session ids in full; they are secrets, and it takes the scope operate"`
}

// Session is a holder's life line.
type Session struct {
	SessionID   string `json:"session_id" doc:"A secret: with its owner it is the right to re-enter. Masked in lists"`
	Owner       string `json:"owner,omitempty"`
	CreatedAt   Time   `json:"created_at,omitempty"`
	ExpiresAt   Time   `json:"expires_at" doc:"By lockdb's clock"`
	RemainingMS int64  `json:"remaining_ms" doc:"What is left, by lockdb's clock; zero or less is lapsed"`
	Locks       int    `json:"locks" doc:"How many locks hang on it"`
}

// NewSession writes a session; its id in full only when show says so (K-2.12).
func NewSession(s lockstore.Session, show bool) Session {
	return Session{sessionText(s.ID, show), s.Owner, NewTime(s.CreatedAt), NewTime(s.ExpiresAt), Milliseconds(s.Remaining), s.Locks}
}

// Value reads a session; sent is when the caller asked.
func (s Session) Value(sent time.Time) (lockstore.Session, error) {
	session := lockstore.Session{
		ID: lockstore.SessionID(s.SessionID), Owner: s.Owner, Remaining: time.Duration(s.RemainingMS) * time.Millisecond, Locks: s.Locks, Sent: sent,
	}
	return session, times(timeTo{s.CreatedAt, &session.CreatedAt}, timeTo{s.ExpiresAt, &session.ExpiresAt})
}

// SessionList answers a list.
type SessionList struct {
	Sessions []Session `json:"sessions"`
}

// EndedSession answers the end of a session.
type EndedSession struct {
	Locks int `json:"locks" doc:"How many locks went with it"`
}

// ReapRequest reaps lapsed sessions now.
type ReapRequest struct {
	Limit int `json:"limit" doc:"At most so many sessions" example:"100"`
}

// Reaped is what one pass of the reaper deleted.
type Reaped struct {
	Sessions int `json:"sessions"`
	Locks    int `json:"locks"`
}
