package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var _ lockstore.Rewinder = (*Rewinder)(nil)

// Rewinder is the cluster's revision as the source of tokens (K-7). What it can do while
// the members run is to refuse what lies below a floor, to void what came back, and to
// write up to MostSkipped empty revisions; what takes it further is `etcdutl snapshot
// restore --bump-revision`, while none runs.
type Rewinder struct{ store *Store }

// OpenRewinder connects to the cluster. It returns the errors of Open, but goes on where
// a grant would be refused.
func OpenRewinder(ctx context.Context, opts Options) (*Rewinder, error) {
	if opts.Purpose > Changing {
		return nil, fmt.Errorf("%w: a rewinder is opened for reading or changing, since it grants nothing", lockstore.ErrInvalid)
	}
	store, err := Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Rewinder{store}, nil
}

// Fresh is the same through new connections.
func (r *Rewinder) Fresh(ctx context.Context) (lockstore.Rewinder, error) {
	fresh, err := OpenRewinder(ctx, r.store.options)
	if err != nil {
		return nil, err
	}
	return fresh, nil
}

// Close closes the connections.
func (r *Rewinder) Close(context.Context) { r.store.Close() }

// CheckEnvironment returns an *instance.EnvironmentError unless the cluster is marked as
// the configured environment, or not marked at all.
func (r *Rewinder) CheckEnvironment(ctx context.Context, configured string) error {
	return r.store.CheckEnvironment(ctx, configured)
}

// Rights returns nothing: etcd does not tell a login what it may write. What is lacking
// is refused when it is tried.
func (r *Rewinder) Rights(context.Context) ([]string, error) { return nil, nil }

// Identity tells which cluster this is, and which life of its data, counted by the
// fast-forwards; see era.go.
func (r *Rewinder) Identity(ctx context.Context) (lockstore.Identity, error) {
	found, err := r.store.readEra(ctx, "tell the lives of the etcd cluster apart")
	return found.here, err
}

// Gate reads the gate. Its row is gone when nobody can read it, or when grants stand and
// no life of the data is recorded.
func (r *Rewinder) Gate(ctx context.Context) (lockstore.Gate, error) {
	g, err := r.readGate(ctx)
	return g.gate, err
}

// gateView is the gate, and what a change of it compares.
type gateView struct {
	gate   lockstore.Gate
	record gateRecord
	// mod is the ModRevision of the gate's key, 0 for none.
	mod int64
	era era
}

const readingGate = "read the gate of the etcd cluster"

func (r *Rewinder) readGate(ctx context.Context) (gateView, error) {
	found, err := r.store.readEra(ctx, readingGate)
	if err != nil {
		return gateView{}, err
	}
	fresh := false
	if found.opened == nil {
		if fresh, err = r.neverGranted(ctx); err != nil {
			return gateView{}, err
		}
	}
	got, err := r.store.read(ctx, readingGate, clientv3.OpGet(r.store.keys.gate()))
	if err != nil {
		return gateView{}, err
	}
	v := gateView{era: found}
	v.gate = lockstore.Gate{Present: fresh || found.opened != nil, OpenedOn: found.openedOn(), Here: fresh || found.isHere()}
	if found.sign != "" {
		v.gate.Sign = "the etcd cluster was set back: " + found.sign
	}
	if fresh {
		v.gate.OpenedOn = found.here
	}
	return v.filled(got.kv(0)), nil
}

func (r *Rewinder) neverGranted(ctx context.Context) (bool, error) {
	got, err := r.store.read(ctx, readingGate,
		clientv3.OpGet(r.store.keys.locks(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(r.store.keys.grants(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	return got.count(0)+got.count(1) == 0, err
}

// filled is the view with what the gate's key says.
func (v gateView) filled(kv *mvccpb.KeyValue) gateView {
	if kv == nil {
		return v
	}
	v.mod = kv.ModRevision
	if err := json.Unmarshal(kv.Value, &v.record); err != nil {
		v.gate.Present = false // closed, and nobody knows by whom
		return v
	}
	v.gate.ClosedBy, v.gate.Reason = v.record.ClosedBy, v.record.Reason
	if v.record.ClosedBy != "" {
		v.gate.ClosedAt = shown(v.record.ClosedAt)
	}
	if v.record.RunID != "" {
		v.gate.Run = &lockstore.GateRun{ID: v.record.RunID, By: v.record.RunBy, At: shown(v.record.RunAt), Reason: v.record.RunReason}
	}
	return v
}

// gateChange is one transaction on the gate.
type gateChange struct {
	// becomes is what the gate is to say; nothing at all opens it.
	becomes gateRecord
	// action is recorded with it, "" for nothing.
	action string
	token  lockstore.Token
	// begins records this life of the data as the one that grants.
	begins bool
}

// CloseGate closes the gate for a fast-forward, or freezes it.
func (r *Rewinder) CloseGate(ctx context.Context, change lockstore.GateChange) (lockstore.Gate, error) {
	return r.moveGate(ctx, "close the gate of the etcd cluster", change, func(v gateView) (*gateChange, error) {
		next := gateChange{becomes: v.record}
		switch {
		case change.Run != "":
			next.becomes.RunID, next.becomes.RunBy, next.becomes.RunReason, next.becomes.RunAt = change.Run, change.Operator, change.Reason, now()
		case v.record.ClosedBy != "":
			return nil, nil
		default:
			next.becomes.ClosedBy, next.becomes.Reason, next.becomes.ClosedAt = change.Operator, change.Reason, now()
			next.action = lockstore.ActionFreeze
		}
		return &next, nil
	})
}

// OpenGate ends a fast-forward, or thaws.
func (r *Rewinder) OpenGate(ctx context.Context, change lockstore.GateChange) (lockstore.Gate, error) {
	return r.moveGate(ctx, "open the gate of the etcd cluster", change, func(v gateView) (*gateChange, error) {
		next := gateChange{becomes: v.record}
		switch {
		case change.Run != "" && v.record.RunID == change.Run:
			next.becomes = gateRecord{ClosedBy: v.record.ClosedBy, ClosedAt: v.record.ClosedAt, Reason: v.record.Reason}
			next.action, next.token, next.begins = lockstore.ActionFastForwardDone, change.Done, true
		case change.Run == "" && v.record.ClosedBy != "":
			next.becomes = gateRecord{RunID: v.record.RunID, RunBy: v.record.RunBy, RunAt: v.record.RunAt, RunReason: v.record.RunReason}
			next.action = lockstore.ActionThaw
		default:
			return nil, &lockstore.GateMovedError{Gate: v.gate}
		}
		return &next, nil
	})
}

// moveGate decides from the gate as it is and writes what follows, again when somebody
// else's change came in between.
func (r *Rewinder) moveGate(ctx context.Context, doing string, change lockstore.GateChange, decide func(gateView) (*gateChange, error)) (lockstore.Gate, error) {
	if err := errors.Join(lockstore.ValidOperator(change.Operator), lockstore.ValidReason(change.Reason)); err != nil {
		return lockstore.Gate{}, err
	}
	for range attempts {
		v, err := r.readGate(ctx)
		if err != nil {
			return lockstore.Gate{}, err
		}
		next, err := decide(v)
		if err != nil || next == nil {
			return v.gate, err
		}
		t, err := r.gateTxn(ctx, doing, v, change, *next)
		if err != nil {
			return lockstore.Gate{}, err
		}
		got, err := r.store.change(ctx, doing, t)
		if err != nil {
			return lockstore.Gate{}, outcome(err)
		}
		if got.done {
			return r.Gate(ctx)
		}
	}
	return lockstore.Gate{}, fmt.Errorf("%s: others are faster each time", doing)
}

func (r *Rewinder) gateTxn(ctx context.Context, doing string, v gateView, change lockstore.GateChange, next gateChange) (txn, error) {
	k := r.store.keys
	t := txn{compare: []clientv3.Cmp{unchanged(k.gate(), v.mod)}}
	if next.becomes == (gateRecord{}) {
		t.then = append(t.then, clientv3.OpDelete(k.gate()))
	} else {
		t.then = append(t.then, clientv3.OpPut(k.gate(), encode(next.becomes)))
	}
	if next.begins {
		record, err := r.store.eraNow(ctx, doing, v.era.here.Timeline)
		if err != nil {
			return txn{}, err
		}
		t.compare = append(t.compare, unchanged(k.era(), v.era.mod))
		t.then = append(t.then, clientv3.OpPut(k.era(), encode(record)))
	}
	if next.action == "" {
		return t, nil
	}
	log, err := r.store.appendLog(ctx, doing)
	if err != nil {
		return txn{}, err
	}
	log.add(operatorRecord{
		Action: next.action, Operator: change.Operator, Reason: change.Reason, Token: next.token, LoggedAt: now(),
		Details: []byte(encode(placeDetails{v.era.here})), LoginRole: r.store.login.name(),
	})
	log.into(&t)
	return t, nil
}

// placeDetails say where a record was written.
type placeDetails struct {
	After lockstore.Identity `json:"after"`
}

// appendLog begins to add to the operator log.
func (s *Store) appendLog(ctx context.Context, doing string) (*appender, error) {
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.head(logChain)))
	if err != nil {
		return nil, err
	}
	return s.keys.appendTo(logChain, got.kv(0))
}

// Barrier asks the cluster once: a grant is one transaction that compares the gate, and
// those before the gate was closed have ended.
func (r *Rewinder) Barrier(ctx context.Context) error {
	_, err := r.store.revision(ctx)
	return err
}

// ExtendJournal has nothing to do: the journal has no partitions.
func (r *Rewinder) ExtendJournal(context.Context) error { return nil }

// Deployment is what an outside mark is bound to.
func (r *Rewinder) Deployment(ctx context.Context) (lockstore.Deployment, error) {
	read := r.store.deployment
	if r.store.options.Purpose < Changing { // who only looks makes none
		read = func(ctx context.Context) (deploymentRecord, error) {
			found, _, err := r.store.readDeployment(ctx)
			return found, err
		}
	}
	found, err := read(ctx)
	return lockstore.Deployment{ID: found.ID, Kept: found.Kept}, outcome(err)
}

// KeepMark records that an outside mark is kept.
func (r *Rewinder) KeepMark(ctx context.Context) error { return outcome(r.store.recordMark(ctx)) }

// outcome is an error in the words of a Rewinder.
func outcome(err error) error {
	if unknown, ok := errors.AsType[*lockstore.UnknownOutcomeError](err); ok {
		return &owner.UnknownOutcomeError{Doing: unknown.Doing, Err: unknown.Err}
	}
	return err
}
