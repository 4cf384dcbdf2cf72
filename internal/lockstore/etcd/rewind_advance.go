package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// voidAtOnce is how many locks one transaction voids: the 128 operations of an etcd
// transaction are counted over its levels.
const voidAtOnce = 50

// Advance voids what stands, and puts the floor at the target with the record, in
// transactions of their own behind the closed gate; then it raises the revision past the
// floor, where that is in reach. Each may be run again: what is voided is gone, and a
// target that is recorded stays.
func (r *Rewinder) Advance(ctx context.Context, params lockstore.AdvanceParams) (lockstore.Advance, error) {
	if err := errors.Join(lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return lockstore.Advance{}, err
	}
	done, err := r.advance(ctx, params)
	if err != nil {
		return lockstore.Advance{}, outcome(err)
	}
	return done, nil
}

func (r *Rewinder) advance(ctx context.Context, params lockstore.AdvanceParams) (lockstore.Advance, error) {
	view, err := r.view(ctx, params.Limit)
	if err != nil {
		return lockstore.Advance{}, err
	}
	decision, err := params.Decide(view)
	if err != nil {
		return lockstore.Advance{}, err
	}
	reached := lockstore.Token(0)
	if len(view.FastForwards.Targets) > 0 {
		reached = slices.Max(view.FastForwards.Targets)
	}
	done := lockstore.Advance{From: min(view.Source.Newest(), max(decision.Target, reached)), To: max(decision.Target, reached)}
	if decision.Target > reached { // only forward: what was reached here is not touched
		if err := r.move(ctx, params, view, decision, &done); err != nil {
			return lockstore.Advance{}, err
		}
	}
	return done, r.pass(ctx, done.To)
}

// move voids what stands and then records the target with the floor.
func (r *Rewinder) move(ctx context.Context, params lockstore.AdvanceParams, view lockstore.AdvanceView, decision lockstore.Decision, done *lockstore.Advance) error {
	var err error
	if done.LocksVoided, err = r.voidLocks(ctx, params); err != nil {
		return err
	}
	if done.SessionsVoided, err = r.voidSessions(ctx); err != nil {
		return err
	}
	record := decision.Record
	record.From, record.To, record.Before, record.After = done.From, done.To, view.Gate.OpenedOn, view.Identity
	record.SessionsVoided, record.LocksVoided = done.SessionsVoided, done.LocksVoided
	const doing = "put the floor at the target"
	for range attempts {
		g, err := r.readGate(ctx)
		if err != nil {
			return err
		}
		if view.Gate.Run != nil && (g.gate.Run == nil || g.gate.Run.ID != view.Gate.Run.ID) {
			return &lockstore.GateMovedError{Gate: g.gate}
		}
		log, err := r.store.appendLog(ctx, doing)
		if err != nil {
			return err
		}
		done.RecordID = log.add(operatorRecord{
			Action: lockstore.ActionFastForward, Operator: params.Operator, Reason: params.Reason, Token: done.To, LoggedAt: now(),
			Details: []byte(encode(record)), LoginRole: r.store.login.name(),
		})
		t := txn{
			compare: []clientv3.Cmp{unchanged(r.store.keys.gate(), g.mod)},
			then:    []clientv3.Op{clientv3.OpPut(r.store.keys.floor(), strconv.FormatInt(int64(done.To), 10))},
		}
		log.into(&t)
		got, err := r.store.change(ctx, doing, t)
		if err != nil {
			return err
		}
		if got.done {
			done.Moved = true
			return nil
		}
	}
	return fmt.Errorf("%s: others are faster each time", doing)
}

// pass raises the revision past the floor, where that is in reach of a running cluster.
func (r *Rewinder) pass(ctx context.Context, floor lockstore.Token) error {
	last, err := r.store.revision(ctx)
	switch {
	case err != nil || last >= floor:
		return err
	case floor-last > MostSkipped:
		problem, fix := beyond(last)(floor)
		return &lockstore.UnsafeError{Clause: "K-10.1", Problem: problem, Fix: fix}
	}
	return r.store.skipTo(ctx, floor)
}

// view reads the cluster while nothing is granted.
func (r *Rewinder) view(ctx context.Context, limit lockstore.Token) (view lockstore.AdvanceView, err error) {
	g, err := r.readGate(ctx)
	if err != nil {
		return view, err
	}
	view.Identity, view.Gate = g.era.here, g.gate
	if view.Evidence, err = r.Evidence(ctx, limit); err != nil {
		return view, err
	}
	if view.FastForwards, err = r.FastForwards(ctx); err != nil {
		return view, err
	}
	view.Source, err = r.Source(ctx)
	return view, err
}

// voidLocks ends every lock that stands, with an audit record each (K-7.5).
func (r *Rewinder) voidLocks(ctx context.Context, params lockstore.AdvanceParams) (voided int, err error) {
	const doing = "void the locks that came back"
	s := r.store
	for {
		got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.head(auditChain)),
			clientv3.OpGet(s.keys.locks(), clientv3.WithPrefix(), clientv3.WithLimit(voidAtOnce)))
		if err != nil || len(got.kvs(1)) == 0 {
			return voided, err
		}
		audit, err := s.keys.appendTo(auditChain, got.kv(0))
		if err != nil {
			return voided, err
		}
		var t txn
		for _, kv := range got.kvs(1) {
			lock := s.keys.readLock(kv)
			t.compare = append(t.compare, s.keys.asSeen(lock))
			t.then = append(t.then, clientv3.OpTxn(nil, s.keys.end(lock, endVoided), nil))
			audit.add(revocationRecord{
				Key: lock.Key, PrevOwner: lock.Owner, PrevToken: lock.token, Operator: params.Operator, Reason: params.Reason, RevokedAt: now(), LoginRole: s.login.name(),
			})
		}
		audit.into(&t)
		done, err := s.change(ctx, doing, t)
		if err != nil {
			return voided, err
		}
		if done.done { // else a holder has released one meanwhile
			voided += len(got.kvs(1))
		}
	}
}

// voidSessions ends every session, with all that hangs on it, in one transaction. The
// leases, which a restore gives their whole time again, end by themselves.
func (r *Rewinder) voidSessions(ctx context.Context) (int, error) {
	k := r.store.keys
	got, err := r.store.change(ctx, "void the sessions that came back", txn{then: []clientv3.Op{
		clientv3.OpDelete(k.sessions(), clientv3.WithPrefix()),
		clientv3.OpDelete(k.alives(), clientv3.WithPrefix()),
		clientv3.OpDelete(k.helds(), clientv3.WithPrefix()),
		clientv3.OpDelete(k.queues(), clientv3.WithPrefix()),
	}})
	if err != nil {
		return 0, err
	}
	return int(got.replies[0].GetResponseDeleteRange().GetDeleted()), nil
}
