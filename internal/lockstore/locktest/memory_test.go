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
	owner := p.Owner
	if m.broken == "L2" {
		owner = "somebody"
	}
	return lockstore.Grant{Key: p.Key, Token: token, Owner: owner, Session: p.Session, AcquiredAt: at(now), ExpiresAt: at(expires), TTL: p.TTL, Sent: now}, nil
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

func (m memory) take(e lockstore.Entry, operator, reason string) lockstore.LockOutcome {
	m.audit = append(m.audit, lockstore.Revocation{ID: int64(len(m.audit) + 1), Key: e.Key, PrevOwner: e.Owner, PrevToken: e.Token, Operator: operator, Reason: reason, RevokedAt: at(m.now())})
	m.drop(e.Key, "revoked")
	return lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: e.Key, AuditID: int64(len(m.audit)), Owner: e.Owner, Token: e.Token, Presented: e.Token, Session: e.Session}
}

func (m memory) Revoke(ctx context.Context, p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	defer unlock()
	if err := errors.Join(lockstore.ValidToken(p.Token), lockstore.ValidOperator(p.Operator), lockstore.ValidReason(p.Reason)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	if p.EndSession && !m.caps.Sessions {
		return lockstore.LockOutcome{}, m.unsupported("end session")
	}
	e, ok := m.look(p.Key)
	outcome := lockstore.LockOutcome{Key: p.Key, Presented: p.Token, Owner: e.Owner, Token: e.Token}
	switch {
	case !ok:
		outcome.Outcome = lockstore.NotHeld
		return outcome, nil
	case e.Token != p.Token && m.broken != "L15":
		outcome.Outcome = lockstore.TokenMoved
		return outcome, nil
	}
	outcome = m.take(e, p.Operator, p.Reason)
	if p.EndSession && m.broken != "L16" {
		for _, other := range m.selected(lockstore.Filter{Session: e.Session}) {
			outcome.AlsoRevoked = append(outcome.AlsoRevoked, m.take(other, p.Operator, p.Reason))
		}
		m.over(e.Session, "revoked")
		outcome.SessionEnded = true
	}
	return outcome, nil
}

func (m memory) RevokeMany(_ context.Context, p lockstore.RevokeManyParams) (outcomes []lockstore.LockOutcome, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Filter == (lockstore.Filter{}) {
		return nil, lockstore.ErrInvalid
	}
	found := m.selected(p.Filter)
	if len(found) != p.Expect && m.broken != "L17" {
		return nil, &lockstore.CountMovedError{Expected: p.Expect, Found: len(found)}
	}
	for _, e := range found {
		outcomes = append(outcomes, m.take(e, p.Operator, p.Reason))
	}
	return outcomes, nil
}

func (m memory) Prune(_ context.Context, olderThan time.Duration, _ int) (pruned []lockstore.Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.selected(lockstore.Filter{Expired: m.broken != "L18"}) {
		if m.now().Sub(e.ExpiresAt.Time) >= olderThan || m.broken == "L18" {
			m.drop(e.Key, "expired")
			pruned = append(pruned, e)
		}
	}
	return pruned, nil
}

func (m memory) Revocations(_ context.Context, f lockstore.RevocationFilter) (rows []lockstore.Revocation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.audit {
		if (f.Key == "" || r.Key == f.Key) && (f.Operator == "" || r.Operator == f.Operator) && (f.After == nil || r.ID > *f.After || m.broken == "L20") {
			rows = append(rows, r)
		}
	}
	if f.After == nil {
		slices.Reverse(rows)
	}
	return rows, nil
}

func (m memory) Revocation(_ context.Context, id int64) (lockstore.Revocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > int64(len(m.audit)) {
		return lockstore.Revocation{}, lockstore.ErrNotFound
	}
	return m.audit[id-1], nil
}

func (m memory) OperatorLog(context.Context, lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	return nil, m.unsupported("operator log")
}

func (m memory) VerifyAudit(context.Context) (lockstore.AuditReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	report := lockstore.AuditReport{Revocations: int64(len(m.audit))}
	if m.broken == "L26" {
		report.Findings = []lockstore.AuditFinding{{ID: "chain_gap"}}
	}
	return report, nil
}

func (m memory) GrantHistory(_ context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.caps.Journal {
		return lockstore.GrantRecord{}, m.unsupported("journal")
	}
	g := m.grants[token]
	if g == nil {
		return lockstore.GrantRecord{}, lockstore.ErrNotFound
	}
	record := *g
	if m.broken == "L21" {
		record.Ended = "released"
	}
	return record, nil
}
