package locktest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func (m memory) CreateSession(_ context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return lockstore.Session{}, m.unsupported("create session")
	}
	now := m.now()
	session := lockstore.Session{ID: lockstore.SessionID(fmt.Sprint("session ", len(m.sessions)+len(m.grants), now.UnixNano())), Owner: owner, CreatedAt: at(now), ExpiresAt: at(now.Add(ttl)), Remaining: ttl, Sent: now}
	m.sessions[session.ID] = session
	return session, nil
}

func (m memory) Heartbeat(_ context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return lockstore.Session{}, m.unsupported("heartbeat")
	}
	session, ok := m.sessions[id]
	if !ok || !m.now().Before(session.ExpiresAt.Time) {
		return lockstore.Session{}, lockstore.ErrSessionLost
	}
	if end := m.now().Add(ttl); end.After(session.ExpiresAt.Time) || m.broken == "L11" {
		session.ExpiresAt = at(end)
	}
	m.sessions[id] = session
	return session, nil
}

func (m memory) over(id lockstore.SessionID, ended string) (locks int) {
	for key, e := range m.entries {
		if e.Session == id && m.broken != "L13" {
			m.drop(key, ended)
			locks++
		}
	}
	delete(m.sessions, id)
	return locks
}

func (m memory) EndSession(_ context.Context, id lockstore.SessionID) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return 0, m.unsupported("end session")
	}
	if _, ok := m.sessions[id]; !ok {
		return 0, lockstore.ErrNotFound
	}
	return m.over(id, "reaped"), nil
}

func (m memory) ReapSessions(_ context.Context, limit int) (lockstore.Reaped, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return lockstore.Reaped{}, m.unsupported("reap")
	}
	if limit < 1 {
		return lockstore.Reaped{}, lockstore.ErrInvalid
	}
	var reaped lockstore.Reaped
	for id, session := range m.sessions {
		if !m.now().Before(session.ExpiresAt.Time) {
			reaped.Sessions++
			reaped.Locks += m.over(id, "reaped")
		}
	}
	return reaped, nil
}

func (m memory) Session(_ context.Context, id lockstore.SessionID) (lockstore.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return lockstore.Session{}, m.unsupported("session")
	}
	session, ok := m.sessions[id]
	if !ok {
		return lockstore.Session{}, lockstore.ErrNotFound
	}
	session.Remaining, session.Locks = session.ExpiresAt.Sub(m.now()), len(m.selected(lockstore.Filter{Session: id}))
	return session, nil
}

func (m memory) Sessions(_ context.Context, f lockstore.SessionFilter) (sessions []lockstore.Session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Sessions {
		return nil, m.unsupported("sessions")
	}
	for id, session := range m.sessions {
		if f.Owner == "" || session.Owner == f.Owner {
			session.Locks = len(m.selected(lockstore.Filter{Session: id}))
			sessions = append(sessions, session)
		}
	}
	return sessions, nil
}

func (m memory) AcquireBatch(ctx context.Context, params []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	if !m.caps.Batches {
		return nil, m.unsupported("batch")
	}
	seen := map[string]bool{}
	var results []lockstore.AcquireResult
	for _, p := range params {
		if seen[p.Key] {
			return nil, lockstore.ErrInvalid
		}
		seen[p.Key] = true
	}
	for _, p := range params {
		grant, err := m.Acquire(ctx, p)
		results = append(results, lockstore.AcquireResult{Grant: grant, Err: err})
	}
	return results, nil
}

func (m memory) ReleaseBatch(_ context.Context, refs []lockstore.GrantRef) (released []lockstore.Release, err error) {
	if !m.caps.Batches {
		return nil, m.unsupported("batch")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ref := range refs {
		released = append(released, m.let(ref.Key, ref.Token))
	}
	return released, nil
}
