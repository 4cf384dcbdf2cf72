package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// revocationRecord is one record of the audit chain.
type revocationRecord struct {
	Key       string          `json:"key"`
	PrevOwner string          `json:"prev_owner"`
	PrevToken lockstore.Token `json:"prev_token"`
	Operator  string          `json:"operator"`
	Reason    string          `json:"reason"`
	RevokedAt time.Time       `json:"revoked_at"`
	// LoginRole is etcd's user, or the common name of the certificate that it asked for; ""
	// where it asks for neither.
	LoginRole string `json:"login_role"`
}

// operatorRecord is one record of the operator log.
type operatorRecord struct {
	Action   string          `json:"action"`
	Operator string          `json:"operator"`
	Reason   string          `json:"reason"`
	Token    lockstore.Token `json:"token,omitempty"`
	// OwnToken: the record's token is the revision of the transaction that wrote it,
	// which nobody knew beforehand.
	OwnToken  bool            `json:"own_token,omitempty"`
	Details   json.RawMessage `json:"details"`
	LoggedAt  time.Time       `json:"logged_at"`
	LoginRole string          `json:"login_role"`
}

// Revocations lists audit records, newest first.
func (s *Store) Revocations(ctx context.Context, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	if err := errors.Join(lockstore.LookupText("key", filter.Key), lockstore.LookupText("operator", filter.Operator)); err != nil {
		return nil, err
	}
	found := []lockstore.Revocation{}
	err := s.links(ctx, "list revocations", auditChain, s.keys.after(auditChain, filter.After), func(id int64, _ *mvccpb.KeyValue, l link) (bool, error) {
		row, err := revocation(id, l)
		if err == nil && (filter.Key == "" || row.Key == filter.Key) && (filter.Operator == "" || row.Operator == filter.Operator) {
			found = append(found, row)
		}
		return filter.Limit <= 0 || len(found) < filter.Limit, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// after walks on from a record, or, without one, back from the newest.
func (k keys) after(c chain, id *int64) *walk {
	if id == nil {
		return k.records(c, 0, true)
	}
	return k.records(c, max(0, *id)+1, false)
}

// Revocation returns one audit record, or ErrNotFound.
func (s *Store) Revocation(ctx context.Context, id int64) (lockstore.Revocation, error) {
	missing := fmt.Errorf("audit row %d: %w", id, lockstore.ErrNotFound)
	if id < 1 {
		return lockstore.Revocation{}, missing
	}
	got, err := s.read(ctx, "show a revocation", clientv3.OpGet(s.keys.link(auditChain, id)))
	if err != nil {
		return lockstore.Revocation{}, err
	}
	kv := got.kv(0)
	if kv == nil {
		return lockstore.Revocation{}, missing
	}
	var l link
	if err := decode(kv, &l); err != nil {
		return lockstore.Revocation{}, err
	}
	return revocation(id, l)
}

func revocation(id int64, l link) (lockstore.Revocation, error) {
	var r revocationRecord
	if err := json.Unmarshal(l.Record, &r); err != nil {
		return lockstore.Revocation{}, fmt.Errorf("read audit record %d: %w", id, err)
	}
	return lockstore.Revocation{
		ID: id, Key: r.Key, PrevOwner: r.PrevOwner, PrevToken: r.PrevToken, Operator: r.Operator, Reason: r.Reason,
		RevokedAt: shown(r.RevokedAt), LoginRole: r.LoginRole,
	}, nil
}

// OperatorLog lists what operators did to the whole store, newest first.
func (s *Store) OperatorLog(ctx context.Context, filter lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	if err := lockstore.LookupText("action", filter.Action); err != nil {
		return nil, err
	}
	found := []lockstore.OperatorRecord{}
	err := s.links(ctx, "list the operator log", logChain, s.keys.after(logChain, filter.After), func(id int64, kv *mvccpb.KeyValue, l link) (bool, error) {
		row, err := logged(id, kv, l)
		if err == nil && (filter.Action == "" || row.Action == filter.Action) {
			found = append(found, row)
		}
		return filter.Limit <= 0 || len(found) < filter.Limit, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func logged(id int64, kv *mvccpb.KeyValue, l link) (lockstore.OperatorRecord, error) {
	var r operatorRecord
	if err := json.Unmarshal(l.Record, &r); err != nil {
		return lockstore.OperatorRecord{}, fmt.Errorf("read record %d of the operator log: %w", id, err)
	}
	if r.OwnToken {
		r.Token = lockstore.Token(kv.CreateRevision)
	}
	return lockstore.OperatorRecord{
		ID: id, LoggedAt: shown(r.LoggedAt), Action: r.Action, Operator: r.Operator, Reason: r.Reason, Token: r.Token,
		Details: r.Details, LoginRole: r.LoginRole,
	}, nil
}

// GrantHistory returns what the journal knows of a token, or ErrNotFound.
func (s *Store) GrantHistory(ctx context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	if err := lockstore.ValidToken(token); err != nil {
		return lockstore.GrantRecord{}, err
	}
	revision := int64(token)
	got, err := s.read(ctx, "explain token "+token.String(), clientv3.OpGet(s.keys.grant(token)),
		clientv3.OpGet(s.keys.locks(), clientv3.WithPrefix(), clientv3.WithMinModRev(revision), clientv3.WithMaxModRev(revision)))
	if err != nil {
		return lockstore.GrantRecord{}, err
	}
	var record grantRecord
	switch {
	case got.kv(0) != nil:
		err = decode(got.kv(0), &record)
	case got.kv(1) != nil:
		lock := s.keys.readLock(got.kv(1))
		if record.lockRecord = lock.lockRecord; lock.odd != "" {
			err = lock.unreadable()
		}
	default:
		err = fmt.Errorf("token %s: %w in the grant journal", token, lockstore.ErrNotFound)
	}
	if err != nil {
		return lockstore.GrantRecord{}, err
	}
	history := lockstore.GrantRecord{
		Key: record.Key, Token: token, Owner: record.Owner, Session: record.Session, GrantedAt: shown(record.AcquiredAt), Ended: record.Ended,
	}
	if record.Ended != "" {
		history.EndedAt = shown(record.EndedAt)
	}
	return history, nil
}
