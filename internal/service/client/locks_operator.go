package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

// query collects the parameters that are set.
type query url.Values

func (q query) text(name, value string) query {
	if value != "" {
		q[name] = []string{value}
	}
	return q
}

func (q query) flag(name string, value bool) query {
	if value {
		q[name] = []string{"true"}
	}
	return q
}

func (q query) limit(value int) query {
	if value != 0 {
		q["limit"] = []string{strconv.Itoa(value)}
	}
	return q
}

func (q query) after(id *int64) query {
	if id != nil {
		q["after"] = []string{strconv.FormatInt(*id, 10)}
	}
	return q
}

// each turns the items of an answer into the store's.
func each[W, V any](items []W, value func(W) (V, error)) ([]V, error) {
	values := make([]V, len(items))
	for i, item := range items {
		var err error
		if values[i], err = value(item); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// ReapSessions deletes lapsed sessions with their locks.
func (l *Locks) ReapSessions(ctx context.Context, limit int) (lockstore.Reaped, error) {
	var answer lockapi.Reaped
	err := call(ctx, l.work, "reap sessions", true, request{
		method: http.MethodPost, path: "/v1/sessions/reap", in: lockapi.ReapRequest{Limit: limit}, out: &answer,
	})
	return lockstore.Reaped(answer), err
}

// Sessions lists sessions by creation; their ids are masked unless the credential may see them.
func (l *Locks) Sessions(ctx context.Context, filter lockstore.SessionFilter) ([]lockstore.Session, error) {
	if err := lockstore.LookupText("owner", filter.Owner); err != nil {
		return nil, err
	}
	var answer lockapi.SessionList
	q := query{}.text("owner", filter.Owner).flag("expired", filter.Expired).limit(filter.Limit)
	if err := l.look(ctx, "list sessions", "/v1/sessions", q, &answer); err != nil {
		return nil, err
	}
	return each(answer.Sessions, func(s lockapi.Session) (lockstore.Session, error) { return s.Value(time.Time{}) })
}

// List returns entries by key.
func (l *Locks) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	err := errors.Join(lockstore.LookupText("owner", filter.Owner), lockstore.LookupText("prefix", filter.Prefix))
	if filter.Session != "" {
		err = errors.Join(err, lockstore.ValidSessionID(filter.Session))
	}
	if err != nil {
		return nil, err
	}
	if filter.Session != "" {
		return l.listOfSession(ctx, filter)
	}
	var answer lockapi.EntryList
	q := query{}.text("owner", filter.Owner).text("prefix", filter.Prefix).flag("expired", filter.Expired).limit(filter.Limit)
	if err := l.look(ctx, "list locks", "/v1/locks", q, &answer); err != nil {
		return nil, err
	}
	return each(answer.Locks, lockapi.Entry.Value)
}

// listOfSession asks in a body: a session's id is a secret, and addresses are logged.
func (l *Locks) listOfSession(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	var answer lockapi.EntryList
	err := l.unmasked(func(show bool) error {
		return call(ctx, l.work, "list locks", false, request{
			method: http.MethodPost, path: "/v1/sessions/locks", out: &answer, safe: true, in: lockapi.SessionLocksRequest{
				SessionID: string(filter.Session), Owner: filter.Owner, Prefix: filter.Prefix, Expired: filter.Expired, Limit: filter.Limit, ShowSession: show,
			},
		})
	})
	if err != nil {
		return nil, err
	}
	return each(answer.Locks, lockapi.Entry.Value)
}

// Show returns one entry.
func (l *Locks) Show(ctx context.Context, key string) (lockstore.Entry, error) {
	if err := lockstore.LookupKey(key); err != nil {
		return lockstore.Entry{}, err
	}
	var answer lockapi.Entry
	q := query{}.text("key", key)
	if err := l.look(ctx, fmt.Sprintf("show lock %q", key), "/v1/locks/show", q, &answer); err != nil {
		return lockstore.Entry{}, err
	}
	return answer.Value()
}

// Revoke deletes the grant the operator saw and writes its audit row, or does
// neither. After an unknown outcome, lock show and audit list tell.
func (l *Locks) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	err := errors.Join(lockstore.LookupKey(params.Key), lockstore.ByToken(params), lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason))
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	var answer lockapi.LockOutcome
	err = call(ctx, l.work, fmt.Sprintf("revoke lock %q", params.Key), true, request{
		method: http.MethodPost, path: "/v1/locks/revoke", out: &answer, in: lockapi.RevokeRequest{
			Key: params.Key, Token: params.Token, TokenStr: params.Token.String(), Operator: params.Operator, Reason: params.Reason,
			EndSession: params.EndSession, FenceAccounts: params.FenceAccounts,
		},
	})
	return answer.Value(), err
}

// RevokeMany revokes every grant that the filter selects in one transaction.
func (l *Locks) RevokeMany(ctx context.Context, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	f := params.Filter
	err := errors.Join(lockstore.LookupText("owner", f.Owner), lockstore.LookupText("prefix", f.Prefix),
		lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason))
	if err != nil {
		return nil, err
	}
	var answer lockapi.LockOutcomes
	err = call(ctx, l.work, "revoke locks", true, request{
		method: http.MethodPost, path: "/v1/locks/revoke-many", out: &answer, in: lockapi.RevokeManyRequest{
			Owner: f.Owner, Prefix: f.Prefix, SessionID: string(f.Session), Expired: f.Expired,
			Operator: params.Operator, Reason: params.Reason, Expect: params.Expect,
		},
	})
	if err != nil {
		return nil, err
	}
	return each(answer.Outcomes, func(o lockapi.LockOutcome) (lockstore.LockOutcome, error) { return o.Value(), nil })
}

// Prune deletes entries whose lease ended more than olderThan ago.
func (l *Locks) Prune(ctx context.Context, olderThan time.Duration, limit int) ([]lockstore.Entry, error) {
	var answer lockapi.EntryList
	err := call(ctx, l.work, "prune locks", true, request{
		method: http.MethodPost, path: "/v1/locks/prune", in: lockapi.PruneRequest{OlderThanMS: lockapi.Milliseconds(olderThan), Limit: limit}, out: &answer,
	})
	if err != nil {
		return nil, err
	}
	return each(answer.Locks, lockapi.Entry.Value)
}

// Revocations lists audit rows, newest first.
func (l *Locks) Revocations(ctx context.Context, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	if err := errors.Join(lockstore.LookupText("key", filter.Key), lockstore.LookupText("operator", filter.Operator)); err != nil {
		return nil, err
	}
	var answer lockapi.RevocationList
	q := query{}.text("key", filter.Key).text("operator", filter.Operator).after(filter.After).limit(filter.Limit)
	if err := l.get(ctx, "list revocations", "/v1/audit/revocations", url.Values(q), &answer); err != nil {
		return nil, err
	}
	return each(answer.Revocations, lockapi.Revocation.Value)
}

// Revocation returns one audit row.
func (l *Locks) Revocation(ctx context.Context, id int64) (lockstore.Revocation, error) {
	var answer lockapi.Revocation
	q := query{}.text("id", strconv.FormatInt(id, 10))
	if err := l.get(ctx, fmt.Sprintf("show audit row %d", id), "/v1/audit/revocations/show", url.Values(q), &answer); err != nil {
		return lockstore.Revocation{}, err
	}
	return answer.Value()
}

// OperatorLog lists what operators did to the whole database, newest first.
func (l *Locks) OperatorLog(ctx context.Context, filter lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	if err := lockstore.LookupText("action", filter.Action); err != nil {
		return nil, err
	}
	var answer lockapi.OperatorLog
	q := query{}.text("action", filter.Action).after(filter.After).limit(filter.Limit)
	if err := l.get(ctx, "list the operator log", "/v1/audit/operator-log", url.Values(q), &answer); err != nil {
		return nil, err
	}
	return each(answer.Records, lockapi.OperatorRecord.Value)
}

// VerifyAudit looks for rows taken out of, or rewritten in, the audit.
func (l *Locks) VerifyAudit(ctx context.Context) (lockstore.AuditReport, error) {
	var answer lockapi.AuditReport
	err := l.get(ctx, "verify the audit", "/v1/audit/verify", nil, &answer)
	return answer.Value(), err
}

// GrantHistory returns what the journal knows of a token.
func (l *Locks) GrantHistory(ctx context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	if err := lockstore.ValidToken(token); err != nil {
		return lockstore.GrantRecord{}, err
	}
	var answer lockapi.GrantRecord
	q := query{}.text("token", token.String())
	if err := l.look(ctx, "explain token "+token.String(), "/v1/tokens/history", q, &answer); err != nil {
		return lockstore.GrantRecord{}, err
	}
	return answer.Value()
}
