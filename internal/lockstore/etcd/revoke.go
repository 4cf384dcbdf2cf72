package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// bulkLimit is the most grants that one transaction revokes: a comparison each, of the
// 128 that etcd allows, and a few for the rest.
const bulkLimit = perTxn

// Revoke deletes the grant the operator saw, with its audit record, or neither. One that
// cannot be read goes too, and its record names no owner.
func (s *Store) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	if err := errors.Join(lockstore.LookupKey(params.Key), lockstore.ByToken(params),
		lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason), validAccounts(params.FenceAccounts)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	r := &forceRevoke{Store: s, params: params, doing: fmt.Sprintf("revoke lock %q", params.Key)}
	if len(params.FenceAccounts) > 0 {
		// F is issued as a grant's token is (K-3.2).
		asked, err := s.admit(ctx)
		if err != nil {
			return lockstore.LockOutcome{}, err
		}
		r.asked = asked
	}
	for range attempts {
		outcome, done, err := r.run(ctx)
		if err != nil || done {
			return outcome, err
		}
	}
	return lockstore.LockOutcome{}, fmt.Errorf("%s: it and the audit changed %d times meanwhile", r.doing, attempts)
}

func validAccounts(accounts []string) error {
	for _, account := range accounts {
		if _, err := uuid.Parse(account); err != nil || len(account) != 36 {
			return fmt.Errorf("%w: account %q is not a UUID; give an account_id of paydb", lockstore.ErrInvalid, account)
		}
	}
	return nil
}

// forceRevoke is one force-revoke.
type forceRevoke struct {
	*Store
	params lockstore.RevokeParams
	doing  string
	// asked is what F must be above.
	asked lockstore.Token
	// What run has read.
	lock            standing
	audit, log      *appender
	revision, alive int64
	lease           clientv3.LeaseID
	others          []standing
}

// run reads and revokes once; not done means that something has moved in between, and
// nothing was changed.
func (r *forceRevoke) run(ctx context.Context) (lockstore.LockOutcome, bool, error) {
	outcome := lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: r.params.Key, Presented: r.params.Token}
	stands, err := r.look(ctx)
	if err != nil || !stands {
		return outcome, true, err
	}
	outcome.Owner, outcome.Token, outcome.Session = r.lock.Owner, r.lock.token, r.lock.Session
	if r.lock.token != r.params.Token {
		outcome.Outcome, outcome.Session = lockstore.TokenMoved, ""
		return outcome, true, nil
	}
	if r.params.EndSession {
		if err := r.lookAtSession(ctx); err != nil {
			return lockstore.LockOutcome{}, false, err
		}
	}
	t := r.txn(&outcome)
	got, err := r.change(ctx, r.doing, t)
	if err != nil || !got.done {
		return lockstore.LockOutcome{}, false, err
	}
	return r.done(ctx, outcome, got)
}

// look reads the key and the ends of the chains; a key that is free tells false.
func (r *forceRevoke) look(ctx context.Context) (bool, error) {
	k := r.keys
	got, err := r.read(ctx, r.doing, clientv3.OpGet(k.lock(r.params.Key)), clientv3.OpGet(k.head(auditChain)),
		clientv3.OpGet(k.head(logChain)), clientv3.OpGet(k.gate()))
	if err != nil || got.kv(0) == nil {
		return false, err
	}
	if len(r.params.FenceAccounts) > 0 {
		if err := closed(got.kv(3)); err != nil {
			return false, err
		}
	}
	r.revision = got.revision
	r.lock = r.keys.readLock(got.kv(0))
	if r.audit, err = k.appendTo(auditChain, got.kv(1)); err != nil {
		return false, err
	}
	r.log, err = k.appendTo(logChain, got.kv(2))
	return true, err
}

// lookAtSession reads what else hangs on the holder's session.
func (r *forceRevoke) lookAtSession(ctx context.Context) error {
	r.others, r.alive, r.lease = nil, 0, clientv3.NoLease
	if r.lock.odd != "" { // no session is known, and a filter without one is every lock
		return r.lock.unreadable()
	}
	view, err := r.Store.look(ctx, r.doing, lockstore.Filter{Session: r.lock.Session})
	if err != nil {
		return err
	}
	r.revision = view.revision
	if alive := view.alive[r.lock.Session]; alive != nil {
		r.alive, r.lease = alive.ModRevision, clientv3.LeaseID(alive.Lease)
	}
	for _, lock := range view.locks {
		if lock.Key != r.lock.Key {
			r.others = append(r.others, lock)
		}
	}
	if len(r.others) >= bulkLimit {
		return fmt.Errorf("%s and end its session with %d locks: at most %d go in one transaction; revoke some of them first, by key prefix: %w",
			r.doing, len(r.others)+1, bulkLimit, lockstore.ErrUnsupported)
	}
	return nil
}

// txn compares all that was read, and fills in what the outcome will be.
func (r *forceRevoke) txn(outcome *lockstore.LockOutcome) txn {
	k, p := r.keys, r.params
	var t txn
	outcome.Outcome = lockstore.Revoked
	outcome.AuditID = r.revoke(&t, r.lock)
	if p.EndSession {
		id := r.lock.Session
		outcome.SessionEnded, outcome.AlsoRevoked = true, []lockstore.LockOutcome{}
		// Nothing was acquired under it since, or an audit record would be missing (K-3.5).
		t.compare = append(t.compare, unchanged(k.alive(id), r.alive), nothingNewer(k.heldBy(id), r.revision))
		t.then = append(t.then, clientv3.OpDelete(k.alive(id)), clientv3.OpDelete(k.session(id)))
		for _, other := range r.others {
			outcome.AlsoRevoked = append(outcome.AlsoRevoked, lockstore.LockOutcome{
				Outcome: lockstore.Revoked, Key: other.Key, AuditID: r.revoke(&t, other), Owner: other.Owner, Token: other.token, Presented: other.token, Session: id,
			})
		}
	}
	if len(p.FenceAccounts) > 0 {
		t.compare = append(t.compare, k.gateIsOpen())
		t.then = append(t.then, clientv3.OpGet(k.floor()))
		r.log.add(operatorRecord{
			Action: lockstore.ActionFenceAccount, Operator: p.Operator, Reason: p.Reason, OwnToken: true, LoggedAt: now(), LoginRole: r.login.name(),
			Details: []byte(encode(fenceDetails{Key: p.Key, PrevToken: r.lock.token, AuditID: outcome.AuditID, Accounts: p.FenceAccounts})),
		})
		r.log.into(&t)
	}
	r.audit.into(&t)
	return t
}

// fenceDetails are the details of an ActionFenceAccount record, as in PostgreSQL.
type fenceDetails struct {
	Key       string          `json:"key"`
	PrevToken lockstore.Token `json:"prev_token"`
	AuditID   int64           `json:"audit_id"`
	Accounts  []string        `json:"accounts"`
}

// revoke makes one grant's end, with its audit record, part of a transaction.
func (r *forceRevoke) revoke(t *txn, lock standing) int64 {
	return r.revokeInto(t, r.audit, lock, r.params.Operator, r.params.Reason)
}

func (s *Store) revokeInto(t *txn, audit *appender, lock standing, operator, reason string) int64 {
	t.compare = append(t.compare, s.keys.asSeen(lock))
	t.then = append(t.then, clientv3.OpTxn(nil, s.keys.end(lock, endRevoked), nil))
	return audit.add(revocationRecord{
		Key: lock.Key, PrevOwner: lock.Owner, PrevToken: lock.token, Operator: operator, Reason: reason, RevokedAt: now(), LoginRole: s.login.name(),
	})
}

// done tells of a revocation that was carried out, and judges F.
func (r *forceRevoke) done(ctx context.Context, outcome lockstore.LockOutcome, got answer) (lockstore.LockOutcome, bool, error) {
	if r.params.EndSession {
		r.leases.forget(r.lock.Session)
		if r.lease != clientv3.NoLease {
			r.dropLease(ctx, r.lease)
		}
	}
	if len(r.params.FenceAccounts) == 0 {
		return outcome, true, nil
	}
	outcome.Fence = lockstore.Token(got.revision)
	if err := r.guard(ctx, r.asked, outcome.Fence, r.floorOf(got)); err != nil {
		return lockstore.LockOutcome{}, false, fmt.Errorf("the grant was revoked, and no account is to be fenced with %s: %w", outcome.Fence, err)
	}
	return outcome, true, nil
}

// floorOf finds the floor among what the transaction read.
func (s *Store) floorOf(got answer) *mvccpb.KeyValue {
	for i := range got.replies {
		if kv := got.kv(i); kv != nil && string(kv.Key) == s.keys.floor() {
			return kv
		}
	}
	return nil
}

// RevokeMany revokes every grant that the filter selects, in key order, an audit
// record each, in one transaction; more than BulkLimit are refused.
func (s *Store) RevokeMany(ctx context.Context, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	f := params.Filter
	if err := errors.Join(lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return nil, err
	}
	if f.Limit != 0 {
		return nil, fmt.Errorf("%w: a bulk revoke takes all that matches; narrow it instead of limiting it", lockstore.ErrInvalid)
	}
	if f.Owner == "" && f.Prefix == "" && f.Session == "" {
		return nil, fmt.Errorf("%w: a bulk revoke without an owner, a session or a prefix would take every lock; narrow it", lockstore.ErrInvalid)
	}
	for range attempts {
		outcomes, done, err := s.revokeMany(ctx, params)
		if err != nil || done {
			return outcomes, err
		}
	}
	return nil, fmt.Errorf("revoke many locks: they and the audit changed %d times meanwhile", attempts)
}

func (s *Store) revokeMany(ctx context.Context, params lockstore.RevokeManyParams) (outcomes []lockstore.LockOutcome, done bool, err error) {
	const doing = "revoke many locks"
	// The end of the audit before the locks: then nothing was revoked in between.
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.head(auditChain)))
	if err != nil {
		return nil, false, err
	}
	audit, err := s.keys.appendTo(auditChain, got.kv(0))
	if err != nil {
		return nil, false, err
	}
	view, err := s.look(ctx, doing, params.Filter)
	switch {
	case err != nil:
		return nil, false, err
	case params.Expect >= 0 && len(view.locks) != params.Expect:
		return nil, false, &lockstore.CountMovedError{Expected: params.Expect, Found: len(view.locks)}
	case len(view.locks) > bulkLimit:
		return nil, false, fmt.Errorf("revoke %d locks in one transaction: at most %d go in one; narrow it, such as by a longer prefix: %w", len(view.locks), bulkLimit, lockstore.ErrUnsupported)
	}
	outcomes = []lockstore.LockOutcome{}
	var t txn
	for _, lock := range view.locks {
		outcomes = append(outcomes, lockstore.LockOutcome{
			Outcome: lockstore.Revoked, Key: lock.Key, AuditID: s.revokeInto(&t, audit, lock, params.Operator, params.Reason),
			Owner: lock.Owner, Token: lock.token, Presented: lock.token, Session: lock.Session,
		})
	}
	if len(outcomes) == 0 {
		return outcomes, true, nil
	}
	audit.into(&t)
	change, err := s.change(ctx, doing, t)
	return outcomes, change.done, err
}
