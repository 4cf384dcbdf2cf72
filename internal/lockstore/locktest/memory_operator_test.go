package locktest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

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
	named := lockstore.ByToken
	if m.caps.LockIDs {
		named = func(p lockstore.RevokeParams) error { return lockstore.ValidToken(p.Token) }
	}
	if err := errors.Join(named(p), lockstore.ValidOperator(p.Operator), lockstore.ValidReason(p.Reason)); err != nil {
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
	case e.Token != p.Token && m.broken != "L15", p.LockIDHash != e.LockIDHash:
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
	if p.Filter.Owner != "" && m.caps.Ownerless {
		return nil, m.unsupported("revoke by owner")
	}
	found := m.selected(p.Filter)
	if len(found) != p.Expect && m.broken != "L17" {
		return nil, &lockstore.CountMovedError{Expected: p.Expect, Found: len(found)}
	}
	if m.caps.BulkLimit > 0 && len(found) > m.caps.BulkLimit {
		return nil, m.unsupported("revoke more than the limit")
	}
	for _, e := range found {
		outcomes = append(outcomes, m.take(e, p.Operator, p.Reason))
	}
	return outcomes, nil
}

func (m memory) Prune(_ context.Context, olderThan time.Duration, _ int) (pruned []lockstore.Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if olderThan > 0 && m.caps.EndsUntimed {
		return nil, m.unsupported("prune by age")
	}
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
