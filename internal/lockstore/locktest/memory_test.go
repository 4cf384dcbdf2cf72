package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// memory is a store in memory, with the capabilities it is given: the suite's own
// test. broken names the one promise that it does not keep.
type memory struct {
	*shelf
	caps   lockstore.Capabilities
	broken string
}

// shelf is what the clients of one memory share.
type shelf struct {
	mu       sync.Mutex
	now      func() time.Time
	token    lockstore.Token
	counters map[string]lockstore.Token
	entries  map[string]lockstore.Entry
	sessions map[lockstore.SessionID]lockstore.Session
	audit    []lockstore.Revocation
	grants   map[lockstore.Token]*lockstore.GrantRecord
}

func newShelf() *shelf {
	return &shelf{
		now: time.Now, counters: map[string]lockstore.Token{}, entries: map[string]lockstore.Entry{},
		sessions: map[lockstore.SessionID]lockstore.Session{}, grants: map[lockstore.Token]*lockstore.GrantRecord{},
	}
}

var _ lockstore.Store = memory{}

func (m memory) Capabilities() lockstore.Capabilities {
	if m.broken == "L1" {
		return lockstore.Capabilities{Backend: "another"}
	}
	return m.caps
}

func (m memory) Close() {}

// lock begins a call; a context that is over changes nothing.
func (m memory) lock(ctx context.Context) (func(), error) {
	if ctx.Err() != nil && m.broken != "L25" {
		return func() {}, context.Cause(ctx)
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

func at(t time.Time) lockstore.Time { return lockstore.Time{Time: t.UTC()} }

// end is when an entry's lease ends: by itself or with its session.
func (m memory) end(e lockstore.Entry) time.Time {
	if m.caps.OwnTTL {
		return e.ExpiresAt.Time
	}
	return m.sessions[e.Session].ExpiresAt.Time
}

func (m memory) live(e lockstore.Entry) bool {
	return m.now().Before(m.end(e).Add(m.caps.Tolerance))
}

// look is what stands on a key; without leases of their own, what has lapsed is
// gone at once.
func (m memory) look(key string) (lockstore.Entry, bool) {
	e, ok := m.entries[key]
	if ok && !m.caps.OwnTTL && !m.live(e) {
		m.drop(key, "expired")
		return lockstore.Entry{}, false
	}
	e.ExpiresAt = at(m.end(e))
	e.Remaining, e.Expired = e.ExpiresAt.Sub(m.now()), !m.live(e)
	return e, ok
}

func (m memory) drop(key, ended string) {
	if g := m.grants[m.entries[key].Token]; g != nil {
		g.Ended, g.EndedAt = ended, at(m.now())
	}
	delete(m.entries, key)
}

func (m memory) draw(key string) lockstore.Token {
	if m.broken == "L5" != m.caps.GlobalTokens {
		m.token++
		return m.token
	}
	m.counters[key]++
	return m.counters[key]
}

func (m memory) Acquire(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return lockstore.Grant{}, err
	}
	defer unlock()
	if m.broken != "L22" {
		if err := errors.Join(lockstore.ValidKey(p.Key), lockstore.ValidOwner(p.Owner), lockstore.ValidTTL(p.TTL)); err != nil {
			return lockstore.Grant{}, err
		}
	}
	if m.caps.Ownerless {
		p.Owner = ""
	}
	if session, ok := m.sessions[p.Session]; m.caps.Sessions && m.broken != "L12" && (!ok || !m.now().Before(session.ExpiresAt.Time)) {
		return lockstore.Grant{}, lockstore.ErrSessionLost
	}
	e, stands := m.look(p.Key)
	mine := e.Owner == p.Owner && (e.Session == p.Session || m.broken == "L7") && (m.caps.Sessions != (m.broken == "L6"))
	if stands && !mine && !e.Expired && m.broken != "L3" {
		return lockstore.Grant{}, &lockstore.HeldError{Key: p.Key, Owner: e.Owner, Token: e.Token, ExpiresAt: e.ExpiresAt, Remaining: e.Remaining}
	}
	now := m.now()
	expires := now.Add(p.TTL)
	if stands && mine && e.ExpiresAt.After(expires) && m.broken != "L9" {
		expires = e.ExpiresAt.Time
	}
	token := m.draw(p.Key)
	switch {
	case m.broken == "L24":
		token = 1000 - token
	case m.broken == "L4" && !stands:
		token = lockstore.Token(len(m.entries) + 1)
	case stands:
		m.drop(p.Key, "taken_over")
	}
	m.entries[p.Key] = lockstore.Entry{Key: p.Key, Token: token, Owner: p.Owner, Session: p.Session, AcquiredAt: at(now), ExpiresAt: at(expires)}
	m.grants[token] = &lockstore.GrantRecord{Key: p.Key, Token: token, Owner: p.Owner, Session: p.Session, GrantedAt: at(now)}
	expires = m.end(m.entries[p.Key])
	owner, id := p.Owner, ""
	if m.broken == "L2" {
		owner = "somebody"
	}
	if m.caps.LockIDs && m.broken != "lock ids" {
		id = fmt.Sprint("id ", p.Key, token)
	}
	return lockstore.Grant{Key: p.Key, Token: token, Owner: owner, Session: p.Session, AcquiredAt: at(now), ExpiresAt: at(expires), TTL: p.TTL, Sent: now, LockID: id}, nil
}

func (m memory) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return lockstore.Grant{}, err
	}
	defer unlock()
	if err := lockstore.ValidToken(token); err != nil {
		return lockstore.Grant{}, err
	}
	e, ok := m.look(key)
	if !ok || e.Token != token || e.Expired && m.broken != "L8" {
		return lockstore.Grant{}, lockstore.ErrLockLost
	}
	if end := m.now().Add(ttl); end.After(e.ExpiresAt.Time) || m.broken == "L9" {
		e.ExpiresAt = at(end)
	}
	if m.caps.OwnTTL {
		m.entries[key] = e
	}
	e.ExpiresAt = at(m.end(e))
	return lockstore.Grant{Key: key, Token: token, ExpiresAt: e.ExpiresAt, TTL: ttl, Sent: m.now()}, nil
}

func (m memory) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return lockstore.Release{}, err
	}
	defer unlock()
	if err := lockstore.ValidToken(token); err != nil {
		return lockstore.Release{}, err
	}
	return m.let(key, token), nil
}

func (m memory) let(key string, token lockstore.Token) lockstore.Release {
	e, ok := m.look(key)
	stale := !ok || e.Token != token && m.broken != "L10" && m.broken != "L14"
	if !stale && m.broken != "L23" {
		m.drop(key, "released")
	}
	return lockstore.Release{Key: key, Token: token, Stale: stale}
}

func (m memory) Show(_ context.Context, key string) (lockstore.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.look(key); ok {
		return e, nil
	}
	return lockstore.Entry{}, lockstore.ErrNotFound
}

func (m memory) List(_ context.Context, f lockstore.Filter) ([]lockstore.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Owner != "" && m.caps.Ownerless {
		return nil, m.unsupported("list by owner")
	}
	entries := m.selected(f)
	if f.Limit > 0 && m.broken != "L19" {
		entries = entries[:min(len(entries), f.Limit)]
	}
	return entries, nil
}

func (m memory) selected(f lockstore.Filter) (entries []lockstore.Entry) {
	for key := range m.entries {
		e, ok := m.look(key)
		if ok && (f.Owner == "" || e.Owner == f.Owner) && strings.HasPrefix(key, f.Prefix) && (f.Session == "" || e.Session == f.Session) && (!f.Expired || e.Expired) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b lockstore.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

func (m memory) unsupported(what string) error {
	if m.broken == "unsupported" {
		return nil
	}
	return fmt.Errorf("%s: %w", what, lockstore.ErrUnsupported)
}
