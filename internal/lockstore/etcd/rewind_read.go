package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Source reads the cluster's revision. It cannot be told what a restore would repeat of
// it; the evidence can.
func (r *Rewinder) Source(ctx context.Context) (lockstore.TokenSource, error) {
	s := r.store
	got, err := s.read(ctx, "read the revision of the etcd cluster",
		s.newestLock(0), s.newestGrant(0), clientv3.OpGet(s.keys.floor()))
	if err != nil {
		return lockstore.TokenSource{}, err
	}
	last := lockstore.Token(got.revision)
	source := lockstore.TokenSource{Last: last, Max: int64(min(last+MostSkipped, lockstore.MaxToken)), Drawn: 1, Problems: []lockstore.UnsafeError{}, Beyond: beyond(last)}
	if kv := got.kv(0); kv != nil {
		source.Drawn = max(source.Drawn, lockstore.Token(kv.ModRevision))
	}
	if kv := got.kv(1); kv != nil {
		token, err := numberAfter(s.keys.grants(), kv)
		if err != nil {
			return lockstore.TokenSource{}, err
		}
		source.Drawn = max(source.Drawn, lockstore.Token(token))
	}
	if unsafe := aboveMost(last); unsafe != nil {
		source.Problems = append(source.Problems, *unsafe)
	}
	floor, err := readFloor(got.kv(2))
	switch {
	case err != nil:
		source.Problems = append(source.Problems, lockstore.UnsafeError{Clause: "K-10.1", Problem: err.Error(), Fix: "find out who wrote it; audit verify and the operator log show what a fast-forward has"})
	case floor-last > MostSkipped:
		problem, fix := beyond(last)(floor)
		source.Problems = append(source.Problems, lockstore.UnsafeError{Clause: "K-10.1", Problem: problem, Fix: fix})
	}
	return source, nil
}

// beyond says what takes the revision where no running cluster comes to.
func beyond(last lockstore.Token) func(lockstore.Token) (problem, fix string) {
	return func(target lockstore.Token) (problem, fix string) {
		return fmt.Sprintf("the cluster's revision is %s, and has to be %s: a cluster that runs is raised by %d at most", last, target, int64(MostSkipped)),
			fmt.Sprintf("take a snapshot, stop all members, and for each of them run: dlockctl restore fast-forward --backend etcd --snapshot FILE --data-dir DIR --bump %s", target)
	}
}

func readFloor(kv *mvccpb.KeyValue) (lockstore.Token, error) {
	if kv == nil {
		return 0, nil
	}
	floor, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the floor %q is not a number", kv.Value)
	}
	return lockstore.Token(floor), nil
}

// newestLock is the lock with the highest token up to a limit, 0 for any.
func (s *Store) newestLock(limit int64) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1)}
	if limit > 0 {
		opts = append(opts, clientv3.WithMaxModRev(limit))
	}
	return clientv3.OpGet(s.keys.locks(), opts...)
}

// newestGrant is the journal's newest up to a limit, 0 for any.
func (s *Store) newestGrant(limit int64) clientv3.Op {
	end := clientv3.GetPrefixRangeEnd(s.keys.grants())
	if limit > 0 {
		end = s.keys.grant(lockstore.Token(limit)) + "\x00"
	}
	return clientv3.OpGet(s.keys.grants(), clientv3.WithRange(end), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1))
}

// The sources of a lock database (K-7.2), by the names they have in PostgreSQL, so that
// --accept-missing and reports know one list: the lock table, the journal, the audit, the
// operator log, and the floor in the sequence's place. The revision itself is none: it is
// what has to be compared, and others' writes raise it.
const (
	sourceLocks  = "lock_entry.fencing_token"
	sourceGrants = "lock_grant.fencing_token"
	sourceAudit  = "lock_revocation.prev_token"
	sourceLog    = "operator_log.token"
	sourceFloor  = "fencing_token_seq"
)

// Evidence reads what is in etcd. All of it was restored with it.
func (r *Rewinder) Evidence(ctx context.Context, limit lockstore.Token) ([]lockstore.Evidence, error) {
	s := r.store
	const doing = "read the evidence of the etcd cluster"
	got, err := s.read(ctx, doing, s.newestLock(int64(limit)), s.newestLock(0), s.newestGrant(int64(limit)), s.newestGrant(0), clientv3.OpGet(s.keys.floor()))
	if err != nil {
		return nil, err
	}
	locks := seen{source: sourceLocks, limit: limit}
	for _, kv := range []*mvccpb.KeyValue{got.kv(0), got.kv(1)} {
		if kv != nil {
			locks.see(lockstore.Token(kv.ModRevision), string(kv.Key), lockstore.Time{})
		}
	}
	grants := seen{source: sourceGrants, limit: limit}
	for _, kv := range []*mvccpb.KeyValue{got.kv(2), got.kv(3)} {
		if kv == nil {
			continue
		}
		token, err := numberAfter(s.keys.grants(), kv)
		if err != nil {
			return nil, err
		}
		grants.see(lockstore.Token(token), string(kv.Key), lockstore.Time{})
	}
	audit, err := r.auditEvidence(ctx, limit)
	if err != nil {
		return nil, err
	}
	log, err := r.logEvidence(ctx, limit)
	if err != nil {
		return nil, err
	}
	floor := seen{source: sourceFloor, limit: limit}
	at, err := readFloor(got.kv(4))
	floor.see(at, s.keys.floor(), lockstore.Time{})
	last := floor.evidence()
	if err != nil {
		last = lockstore.Evidence{Source: sourceFloor, Status: lockstore.EvidenceUnavailable, Reason: err.Error()}
	}
	return []lockstore.Evidence{locks.evidence(), grants.evidence(), audit.evidence(), log.evidence(), last}, nil
}

// auditEvidence is the highest token of a revocation.
func (r *Rewinder) auditEvidence(ctx context.Context, limit lockstore.Token) (seen, error) {
	found := seen{source: sourceAudit, limit: limit}
	rows, err := r.store.Revocations(ctx, lockstore.RevocationFilter{})
	for _, row := range rows {
		found.see(row.PrevToken, fmt.Sprintf("audit record %d", row.ID), row.RevokedAt)
	}
	return found, err
}

// logEvidence is the highest token of the operator log: any F, for it was drawn, and what
// another life of the data reached. What this one reached itself is its target.
func (r *Rewinder) logEvidence(ctx context.Context, limit lockstore.Token) (seen, error) {
	found := seen{source: sourceLog, limit: limit}
	here, records, err := r.log(ctx)
	for _, record := range records {
		if !isFastForward(record) || recordOf(record).After != here {
			found.see(record.Token, fmt.Sprintf("record %d, %s", record.ID, record.Action), record.LoggedAt)
		}
	}
	return found, err
}

func isFastForward(record lockstore.OperatorRecord) bool {
	return record.Action == lockstore.ActionFastForward || record.Action == lockstore.ActionFastForwardDone
}

// recordOf are the details of a fast-forward's record; of another, nothing.
func recordOf(record lockstore.OperatorRecord) lockstore.FastForwardRecord {
	var details lockstore.FastForwardRecord
	if err := json.Unmarshal(record.Details, &details); err != nil {
		return lockstore.FastForwardRecord{}
	}
	return details
}

// log is the operator log, newest first, and where this is.
func (r *Rewinder) log(ctx context.Context) (lockstore.Identity, []lockstore.OperatorRecord, error) {
	here, err := r.Identity(ctx)
	if err != nil {
		return here, nil, err
	}
	records, err := r.store.OperatorLog(ctx, lockstore.OperatorLogFilter{})
	return here, records, err
}

// seen is the highest token of a source.
type seen struct {
	source       string
	limit        lockstore.Token
	value, above lockstore.Token
	row          string
	at           lockstore.Time
}

func (s *seen) see(token lockstore.Token, row string, at lockstore.Time) {
	switch {
	case token > s.limit:
		s.above = max(s.above, token)
	case token > s.value:
		s.value, s.row, s.at = token, row, at
	}
}

func (s *seen) evidence() lockstore.Evidence {
	e := lockstore.Evidence{Source: s.source, Status: lockstore.EvidenceRead, Value: s.value, Row: s.row, At: s.at}
	if s.value == 0 {
		e.Status = lockstore.EvidenceEmpty
	}
	if s.above > 0 {
		e.Above = s.above.String()
	}
	return e
}

// FastForwards lists what this life of the data reached.
func (r *Rewinder) FastForwards(ctx context.Context) (lockstore.FastForwards, error) {
	var found lockstore.FastForwards
	here, records, err := r.log(ctx)
	for i, record := range records {
		isHere := isFastForward(record) && recordOf(record).After == here
		if i == 0 {
			found.LastAction, found.LastToken, found.LastHere = record.Action, record.Token, isHere
		}
		if record.Action == lockstore.ActionFastForward && isHere {
			found.Targets = append(found.Targets, record.Token)
		}
	}
	return found, err
}

// Traffic tells what stands. etcd does not say who is connected.
func (r *Rewinder) Traffic(ctx context.Context) (lockstore.Traffic, error) {
	s := r.store
	got, err := s.read(ctx, "look what stands in the etcd cluster",
		clientv3.OpGet(s.keys.sessions(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(s.keys.locks(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend), clientv3.WithLimit(1)))
	if err != nil {
		return lockstore.Traffic{}, err
	}
	traffic := lockstore.Traffic{Connected: []owner.Process{}, Holding: []owner.Process{}, Sessions: got.count(0), Locks: got.count(1)}
	if kv := got.kv(1); kv != nil {
		traffic.LowestLock = lockstore.Token(kv.ModRevision)
	}
	return traffic, nil
}
