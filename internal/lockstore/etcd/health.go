package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Health is what a cluster says of itself, for a person who asks whether locks are safe
// on it. It is read from each configured member; nothing is written.
type Health struct {
	// Endpoints are the configured addresses and what each of them said.
	Endpoints []Endpoint
	// Members are those that the cluster counts, by name; MembersErr is why they are
	// not known.
	Members    []Member
	MembersErr error
	// Alarms are such as "NOSPACE on member m0"; AlarmsErr is why they are not known.
	Alarms    []string
	AlarmsErr error
	// Err is why the store's own keys could not be read, with a quorum: the rest is
	// then zero.
	Err error
	// Revision is the cluster's, Floor what its tokens must be above, 0 for none.
	Revision, Floor lockstore.Token
	// Closed is why nothing is granted, nil where the gate is open.
	Closed error
	// Sign is what shows that this is another life of the data than the one in which the
	// gate was opened, "" for nothing (K-7.6).
	Sign string
	// Deployment is what an outside mark is bound to.
	Deployment lockstore.Deployment
	// Environment is the mark, "" for none.
	Environment string
	// Odd are the locks and sessions whose values cannot be read, and why; OddErr is why
	// they are not known.
	Odd    []string
	OddErr error
	// Anybody tells that the cluster asks nobody for a login; AuthErr is why that is not
	// known.
	Anybody bool
	AuthErr error
}

// Endpoint is what is behind one address.
type Endpoint struct {
	Address string
	// Err is why it does not answer.
	Err         error
	Cluster, ID uint64
	Leader      uint64
	Version     string
	Learner     bool
	Size, InUse int64 // bytes of the database file, and of what is in it
	Quota       int64 // 0 where the member does not tell
	Revision    int64
	Errors      []string
}

// Member is one that the cluster counts.
type Member struct {
	Name    string
	Learner bool
	// Started is false for one that was added and never came.
	Started bool
}

// ReadHealth asks the cluster how it is. The error is about the options alone; what
// does not answer is in the answer.
func ReadHealth(ctx context.Context, opts Options) (Health, error) {
	names, err := newKeys(opts.Prefix)
	if err != nil {
		return Health{}, err
	}
	opts.DialTimeout, opts.Timeout = cmp.Or(opts.DialTimeout, DefaultDialTimeout), cmp.Or(opts.Timeout, DefaultTimeout)
	h := Health{Endpoints: make([]Endpoint, len(opts.Endpoints))}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: opts.Endpoints, TLS: opts.TLS, Username: opts.Username, Password: opts.Password,
		DialTimeout: opts.DialTimeout, Context: ctx, Logger: zap.NewNop(),
	})
	if err != nil {
		// A login is asked for before anything else, of whoever answers.
		h.unread(err)
		for i, address := range opts.Endpoints {
			h.Endpoints[i] = Endpoint{Address: address, Err: err}
		}
		return h, nil
	}
	defer client.Close() //nolint:errcheck // it was only read
	s := &Store{client: client, kv: client, keys: names, options: opts}
	var asked sync.WaitGroup
	for i, address := range opts.Endpoints {
		asked.Go(func() { h.Endpoints[i] = s.askEndpoint(ctx, address) })
	}
	asked.Go(func() { s.askCluster(ctx, &h) })
	asked.Go(func() { h.Odd, h.OddErr = s.odd(ctx) })
	asked.Wait()
	return h, nil
}

func (s *Store) askEndpoint(ctx context.Context, address string) Endpoint {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	e := Endpoint{Address: address}
	status, err := s.client.Status(ctx, address)
	if err != nil {
		e.Err = err
		return e
	}
	e.Cluster, e.ID, e.Leader, e.Version, e.Learner = status.Header.ClusterId, status.Header.MemberId, status.Leader, status.Version, status.IsLearner
	e.Size, e.InUse, e.Quota, e.Revision, e.Errors = status.DbSize, status.DbSizeInUse, status.DbSizeQuota, status.Header.Revision, status.Errors
	return e
}

// askCluster asks what only the members together know.
func (s *Store) askCluster(ctx context.Context, h *Health) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	const doing = "read the health of the etcd cluster"
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.gate()), clientv3.OpGet(s.keys.floor()), clientv3.OpGet(s.keys.environment()))
	if err != nil {
		h.unread(err)
		return
	}
	h.Revision, h.Closed = lockstore.Token(got.revision), closed(got.kv(0))
	if kv := got.kv(1); kv != nil {
		floor, err := strconv.ParseInt(string(kv.Value), 10, 64)
		if err != nil {
			h.Err = fmt.Errorf("%s: the floor is %q, which is no number", doing, kv.Value)
		}
		h.Floor = lockstore.Token(floor)
	}
	if kv := got.kv(2); kv != nil {
		h.Environment = string(kv.Value)
	}
	life, err := s.readEra(ctx, doing)
	h.Sign, h.Err = life.sign, cmp.Or(h.Err, err)
	record, _, err := s.readDeployment(ctx)
	h.Deployment, h.Err = lockstore.Deployment{ID: record.ID, Kept: record.Kept}, cmp.Or(h.Err, err)
	var asked sync.WaitGroup
	asked.Go(func() { h.Members, h.MembersErr = s.members(ctx) })
	asked.Go(func() { h.Alarms, h.AlarmsErr = s.alarms(ctx) })
	asked.Go(func() { h.Anybody, h.AuthErr = s.anybody(ctx) })
	asked.Wait()
}

// unread says why nothing of the cluster as a whole is known.
func (h *Health) unread(err error) {
	h.Err, h.MembersErr, h.AlarmsErr, h.AuthErr = err, err, err, err
}

// odd reads every lock and every session, page by page, for values that are no records:
// each stands in the way of whoever needs it, and no other tells of it.
func (s *Store) odd(ctx context.Context) ([]string, error) {
	const doing = "read every lock and session"
	var odd []string
	err := s.walk(ctx, doing, below(s.keys.locks()), func(kv *mvccpb.KeyValue) (bool, error) {
		if lock := s.keys.readLock(kv); lock.odd != "" {
			what := fmt.Sprintf("lock %q (etcd key %q)", lock.Key, lock.name)
			if s.keys.nameless(lock) {
				what = fmt.Sprintf("etcd key %q, which is no name of a lock", lock.name)
			}
			odd = append(odd, what+": "+lock.odd)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	err = s.walk(ctx, doing, below(s.keys.sessions()), func(kv *mvccpb.KeyValue) (bool, error) {
		if _, err := readSession(kv); err != nil {
			odd = append(odd, fmt.Sprintf("session %s: %v", s.sessionID(kv).Masked(), err))
		}
		return true, nil
	})
	return odd, err
}

func below(prefix string) *walk {
	return &walk{first: prefix, last: clientv3.GetPrefixRangeEnd(prefix)}
}

// anybody tells that no login is asked for. Where one is, who may not know is told so,
// and that is the answer.
func (s *Store) anybody(ctx context.Context) (bool, error) {
	status, err := s.client.AuthStatus(ctx)
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read whether authentication is on: %w", err)
	}
	return !status.Enabled, nil
}

func (s *Store) members(ctx context.Context) ([]Member, error) {
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the members: %w", err)
	}
	members := make([]Member, len(list.Members))
	for i, m := range list.Members {
		// One that has not started has not told its name.
		members[i] = Member{Name: m.Name, Learner: m.IsLearner, Started: m.Name != ""}
	}
	return members, nil
}

func (s *Store) alarms(ctx context.Context) ([]string, error) {
	list, err := s.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the alarms: %w", err)
	}
	var alarms []string
	for _, a := range list.Alarms {
		if a.Alarm != pb.AlarmType_NONE {
			alarms = append(alarms, fmt.Sprintf("%s on member %x", a.Alarm, a.MemberID))
		}
	}
	slices.Sort(alarms)
	return alarms, nil
}

// errNobody is the reason of Answers.
var errNobody = errors.New("no configured address answers")

// Answers says why nothing can be read from the cluster, nil when a quorum answers.
func (h Health) Answers() error {
	if h.Err == nil {
		return nil
	}
	for _, e := range h.Endpoints {
		if e.Err == nil {
			return fmt.Errorf("members answer, and no quorum does: %w", h.Err)
		}
	}
	return fmt.Errorf("%w: %w", errNobody, h.Err)
}
