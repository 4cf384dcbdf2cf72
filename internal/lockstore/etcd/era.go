package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// # How a restore is noticed
//
// A snapshot that is restored without --bump-revision issues revisions, and so tokens,
// a second time. Everything in it is as old as it is, what the store keeps about itself
// too, so that each sign catches some cases (K-7.6):
//
//	sign                          a restore of               is blind when
//	cluster id differs            a snapshot, under other    token and peer URLs are those of
//	                              peer URLs or token         before: etcd computes the id from them
//	lead below the era's          a snapshot, bumped or      as many leases were made since as the
//	                              not, however restored      snapshot has revisions
//	revision or token not above   anything, seen by a        the process was started after it, or
//	the highest this process saw  process that lived on      others' writes passed that first
//	outside mark's highest        anything, and single       no mark is kept, or the snapshot is
//	                              members' data alike        from before the store's first use
//	paydb's highest (K-7.6)       anything                   none of the lost tokens reached paydb
//	meta/floor                    nothing by itself: it is restored too. It keeps what a fast-forward
//	                              has reached from being issued while the cluster was not bumped
//
// The lead is what the index of the raft log is ahead of the revision. Each entry of the
// log raises the index by one and the revision by one at most, so within one life of a
// cluster it never falls; `etcdutl snapshot restore` begins a new log at the index of the
// member count and leaves the revision, or bumps it. A copy of the members' own data
// directories keeps both; so does --force-new-cluster.

// eraRecord is the value of meta/era: where the gate was opened last.
type eraRecord struct {
	Cluster uint64 `json:"cluster_id,string"`
	// Number counts the lives of this data: a fast-forward begins the next one.
	Number int32 `json:"era"`
	// Lead is at or below what it was when the record was written.
	Lead int64 `json:"lead"`
	// Sign is what a store that was to grant has seen; it stays, while the lead of a
	// restored cluster may grow past the era's.
	Sign string `json:"sign,omitempty"`
}

// era is what is known of the cluster's present life.
type era struct {
	// opened is the record, nil when there is none; mod its ModRevision.
	opened *eraRecord
	mod    int64
	// here is the present life, and sign what shows that it is not the record's.
	here     lockstore.Identity
	sign     string
	revision lockstore.Token
}

func (e era) openedOn() lockstore.Identity {
	if e.opened == nil {
		return lockstore.Identity{}
	}
	return lockstore.Identity{SystemIdentifier: int64(e.opened.Cluster), Timeline: e.opened.Number} //nolint:gosec // G115: the bits are the identity
}

// isHere tells that this is the life in which the gate was opened.
func (e era) isHere() bool { return e.opened != nil && e.here == e.openedOn() }

func (k keys) era() string { return k.meta("era") }

// readEra asks the cluster which life of its data this is.
func (s *Store) readEra(ctx context.Context, doing string) (era, error) {
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.era()))
	if err != nil {
		return era{}, err
	}
	found := era{
		revision: lockstore.Token(got.revision),
		here:     lockstore.Identity{SystemIdentifier: int64(got.cluster), Timeline: 1}, //nolint:gosec // G115: the bits are the identity
	}
	kv := got.kv(0)
	if kv == nil {
		return found, nil
	}
	var record eraRecord
	if err := decode(kv, &record); err != nil {
		return era{}, err
	}
	found.opened, found.mod = &record, kv.ModRevision
	found.sign, err = s.judge(ctx, doing, record, got.cluster, kv.ModRevision)
	found.here.Timeline = record.Number
	if found.sign != "" {
		found.here.Timeline++
	}
	return found, err
}

// judge compares the cluster with the record and returns the sign that it is another
// life of the data, "" for none.
func (s *Store) judge(ctx context.Context, doing string, record eraRecord, cluster uint64, mod int64) (sign string, err error) {
	switch {
	case record.Sign != "":
		return record.Sign, nil
	case record.Cluster != cluster:
		return fmt.Sprintf("its id is %x, and was %x when its gate was opened: a snapshot was restored", cluster, record.Cluster), nil
	}
	// The member that answers may lag behind: then its lead is that of before the
	// record.
	status, err := s.status(ctx, doing, mod)
	if err != nil {
		return "", err
	}
	// The member reads its revision first: the lead is at least what it was then.
	lead := int64(status.RaftIndex) - status.Header.Revision //nolint:gosec // G115: an index below 2^63
	if lead < record.Lead {
		return fmt.Sprintf("its raft log has index %d at revision %d, which fits no cluster that went on since its gate was opened: a snapshot was restored", status.RaftIndex, status.Header.Revision), nil
	}
	return "", nil
}

// statusAgain is how long a member that lags behind is left alone.
const statusAgain = 20 * time.Millisecond

// status asks some member about itself that has come to a revision.
func (s *Store) status(ctx context.Context, doing string, revision int64) (*pb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	for {
		status, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Status(clientv3.WithRequireLeader(ctx), &pb.StatusRequest{})
		if err != nil {
			return nil, classifyRead(ctx, doing, err)
		}
		if status.Header.Revision >= revision {
			return status, nil
		}
		if err := lockstore.Pause(ctx, statusAgain); err != nil {
			return nil, &lockstore.UnreachableError{Doing: doing, Err: errors.Join(fmt.Errorf("a member lags behind at revision %d", status.Header.Revision), err)}
		}
	}
}

// eraNow is the record of the present life, as the number-th: its lead is what the log
// was ahead before the revision was read, so that the true one is above it.
func (s *Store) eraNow(ctx context.Context, doing string, number int32) (eraRecord, error) {
	status, err := s.status(ctx, doing, 0)
	if err != nil {
		return eraRecord{}, err
	}
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.era()))
	if err != nil {
		return eraRecord{}, err
	}
	return eraRecord{Cluster: got.cluster, Number: number, Lead: int64(status.RaftAppliedIndex) - got.revision}, nil //nolint:gosec // G115: an index below 2^63
}

// enterEra is asked by a store that is to grant. It records the first life of data in
// which nothing was ever granted, and refuses one that is not the record's; the sign is
// recorded, since the lead that shows it may grow past the era's.
func (s *Store) enterEra(ctx context.Context) error {
	const doing = "look whether the etcd cluster was restored"
	found, err := s.readEra(ctx, doing)
	if err != nil || found.isHere() {
		return err
	}
	if found.opened == nil {
		return s.beginEra(ctx)
	}
	if found.opened.Sign == "" {
		signed := *found.opened
		signed.Sign = found.sign
		// The refusal stands without it.
		_, _ = s.change(ctx, doing, txn{
			compare: []clientv3.Cmp{unchanged(s.keys.era(), found.mod)},
			then:    []clientv3.Op{clientv3.OpPut(s.keys.era(), encode(signed))},
		})
	}
	return grantsClosed(planHint, "%s", found.sign)
}

func (s *Store) beginEra(ctx context.Context) error {
	const doing = "record the first life of the etcd cluster"
	record, err := s.eraNow(ctx, doing, 1)
	if err != nil {
		return err
	}
	got, err := s.change(ctx, doing, txn{
		compare:   []clientv3.Cmp{absent(s.keys.era()), nothingNewer(s.keys.locks(), 0), nothingNewer(s.keys.grants(), 0)},
		then:      []clientv3.Op{clientv3.OpPut(s.keys.era(), encode(record))},
		otherwise: []clientv3.Op{clientv3.OpGet(s.keys.era())},
	})
	switch {
	case err != nil || got.done:
		return err
	case got.kv(0) != nil: // somebody else was first
		return s.enterEra(ctx)
	default:
		return grantsClosed(planHint, "its key %s is gone, and locks were granted", s.keys.era())
	}
}

const planHint = "run: dlockctl restore plan --backend etcd"

func grantsClosed(hint, format string, args ...any) *lockstore.GrantsClosedError {
	return &lockstore.GrantsClosedError{Reason: "the etcd cluster grants no locks: " + fmt.Sprintf(format, args...), Hint: hint}
}
