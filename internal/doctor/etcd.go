package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// Cluster is an etcd cluster that keeps the locks in place of lockdb.
type Cluster struct {
	// Endpoints are the configured addresses.
	Endpoints []string
	// Certificate tells that the client shows one.
	Certificate bool
	// Read asks the cluster how it is, as [etcd.ReadHealth] does.
	Read func(context.Context) (etcd.Health, error)
}

// etcdHealth is asked for once, by the first check that wants it.
type etcdHealth func(ctx context.Context) (etcd.Health, error)

func newEtcdHealth(c *Cluster) etcdHealth {
	var once sync.Once
	var health etcd.Health
	var err error
	return func(ctx context.Context) (etcd.Health, error) {
		once.Do(func() { health, err = c.Read(ctx) })
		return health, err
	}
}

// onEtcd makes a look at the cluster as a whole. Where a quorum does not answer, it is
// unknown.
func onEtcd(look func(ctx context.Context, e *exam, h etcd.Health) (finding, error)) func(context.Context, *exam) (finding, error) {
	return func(ctx context.Context, e *exam) (finding, error) {
		h, err := e.etcd(ctx)
		switch {
		case err != nil:
			return finding{}, err
		case h.Err != nil:
			return finding{Unknown, "etcd does not answer with a quorum", advice("see etcd_reachable")}, nil //nolint:nilerr // what cannot be read is a finding
		}
		return look(ctx, e, h)
	}
}

// etcdReachable is the ground of all other checks of the cluster.
func etcdReachable(ctx context.Context, e *exam) (finding, error) {
	h, err := e.etcd(ctx)
	if err != nil {
		return finding{}, err
	}
	if err := h.Answers(); err != nil {
		return finding{Fail, plain(err), advice("are enough members up, and are address, certificate, user and password of etcd.* right? etcdctl endpoint health asks each")}, nil
	}
	return finding{OK, fmt.Sprintf("a quorum answers, at revision %s", h.Revision), nil}, nil
}

// etcdEndpoints looks at each configured address.
func etcdEndpoints(ctx context.Context, e *exam) (finding, error) {
	h, err := e.etcd(ctx)
	if err != nil {
		return finding{}, err
	}
	var away, complaints []string
	clusters := map[uint64]bool{}
	for _, at := range h.Endpoints {
		if at.Err != nil {
			away = append(away, at.Address)
			continue
		}
		clusters[at.Cluster] = true
		for _, complaint := range at.Errors {
			complaints = append(complaints, at.Address+": "+complaint)
		}
	}
	switch {
	case len(clusters) > 1:
		return finding{Fail, "the addresses belong to different clusters", advice("correct etcd.endpoints: each cluster counts revisions of its own, so tokens of one mean nothing to the other")}, nil
	case len(away) == len(h.Endpoints):
		return finding{Unknown, "no address answers", advice("see etcd_reachable")}, nil
	case len(away) > 0:
		return finding{Warn, "no answer from " + strings.Join(away, ", "), advice("start the member, or take an address that is none's any more out of etcd.endpoints")}, nil
	case len(complaints) > 0:
		return finding{Warn, strings.Join(complaints, ", "), advice("see the member's log; etcd_alarms says more of an alarm")}, nil
	}
	return finding{OK, "all of " + strings.Join(e.target.Etcd.Endpoints, ", ") + " answer", nil}, nil
}

func etcdLeader(ctx context.Context, e *exam) (finding, error) {
	h, err := e.etcd(ctx)
	if err != nil {
		return finding{}, err
	}
	leaders := map[uint64]bool{}
	for _, at := range h.Endpoints {
		if at.Err == nil {
			leaders[at.Leader] = true
		}
	}
	switch {
	case len(leaders) == 0:
		return finding{Unknown, "no address answers", advice("see etcd_reachable")}, nil
	case leaders[0]:
		return finding{Fail, "a member knows no leader", advice("it is cut off, or no quorum is up: nothing is granted or renewed through it")}, nil
	case len(leaders) > 1:
		return finding{Warn, fmt.Sprintf("%d members are called leader", len(leaders)), advice("an election is under way, or a member is cut off: look again in some seconds")}, nil
	}
	return finding{OK, fmt.Sprintf("it is %x", h.Endpoints[slices.IndexFunc(h.Endpoints, func(at etcd.Endpoint) bool { return at.Err == nil })].Leader), nil}, nil
}

func etcdQuorum(_ context.Context, _ *exam, h etcd.Health) (finding, error) {
	if h.MembersErr != nil {
		return finding{Unknown, plain(h.MembersErr), nil}, nil //nolint:nilerr // what cannot be read is a finding
	}
	voters, absent, learners := 0, 0, 0
	for _, m := range h.Members {
		switch {
		case m.Learner:
			learners++
		case !m.Started:
			absent++
			voters++
		default:
			voters++
		}
	}
	saw := fmt.Sprintf("%d voting members, %d of them not started, %d learners", voters, absent, learners)
	switch {
	case absent > 0:
		return finding{Warn, saw, advice("start those that were added, or remove them: they count for the quorum and give it nothing")}, nil
	case voters < 3:
		return finding{Warn, saw, advice("with fewer than 3 the loss of one machine stops every grant, and of the only one loses every lock: add members")}, nil
	case voters%2 == 0:
		return finding{Warn, saw, advice("an even number survives no more losses than one fewer: add or remove one")}, nil
	}
	return finding{OK, saw, nil}, nil
}

// oldestEtcd is the first version whose revision, and so the token, does not go back after
// a crash: during load (etcd#13766, mended in 3.5.3), a defragmentation (etcd#14685, in
// 3.5.6) or a compaction (etcd#17780, in 3.5.14). It also has what a restore needs,
// --bump-revision (3.5.10), and ends no live lease by a leader of before (3.5.13).
const oldestEtcd = "3.5.14"

func etcdVersion(ctx context.Context, e *exam) (finding, error) {
	h, err := e.etcd(ctx)
	if err != nil {
		return finding{}, err
	}
	var versions []string
	for _, at := range h.Endpoints {
		if at.Err == nil && !slices.Contains(versions, at.Version) {
			versions = append(versions, at.Version)
		}
	}
	switch {
	case len(versions) == 0:
		return finding{Unknown, "no address answers", advice("see etcd_reachable")}, nil
	case slices.ContainsFunc(versions, tooOld):
		return finding{Fail, "etcd " + strings.Join(versions, ", "), advice("upgrade every member to " + oldestEtcd + " or newer, one after the other")}, nil
	case len(versions) > 1:
		return finding{Warn, "etcd " + strings.Join(versions, ", "), advice("finish the upgrade: the members work at the oldest one's version until then")}, nil
	}
	return finding{OK, "etcd " + versions[0], nil}, nil
}

func tooOld(version string) bool {
	have, told := numbers(version)
	want, _ := numbers(oldestEtcd)
	return !told || slices.Compare(have[:], want[:]) < 0 // nobody has tested what cannot tell its version
}

func numbers(version string) (n [3]int, told bool) {
	_, err := fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n, err == nil
}

func etcdAlarms(_ context.Context, _ *exam, h etcd.Health) (finding, error) {
	switch {
	case h.AlarmsErr != nil:
		return finding{Unknown, plain(h.AlarmsErr), advice("the alarms are told to a user of etcd with the role root alone")}, nil //nolint:nilerr // what cannot be read is a finding
	case len(h.Alarms) > 0:
		return finding{Fail, strings.Join(h.Alarms, ", "), advice("NOSPACE: etcdctl compact, etcdctl defrag on each member, then etcdctl alarm disarm; CORRUPT: stop the member, and replace it by a new one")}, nil
	}
	return finding{OK, "none", nil}, nil
}

// fullPercent is from when on the database's size is said.
const fullPercent = 80

func etcdSpace(ctx context.Context, e *exam) (finding, error) {
	h, err := e.etcd(ctx)
	if err != nil {
		return finding{}, err
	}
	saw, full := []string{}, false
	for _, at := range h.Endpoints {
		if at.Err != nil {
			continue
		}
		size := fmt.Sprintf("%s %d MiB", at.Address, at.Size>>20)
		if at.Quota > 0 {
			size += fmt.Sprintf(" of %d", at.Quota>>20)
			full = full || at.Size*100 >= at.Quota*fullPercent
		}
		saw = append(saw, size)
	}
	switch {
	case len(saw) == 0:
		return finding{Unknown, "no address answers", advice("see etcd_reachable")}, nil
	case full:
		return finding{Warn, strings.Join(saw, ", "), advice("past its quota the cluster takes no write at all, a release neither: switch auto-compaction on, compact and defragment, or raise --quota-backend-bytes")}, nil
	}
	return finding{OK, strings.Join(saw, ", "), nil}, nil
}

func etcdGate(_ context.Context, _ *exam, h etcd.Health) (finding, error) {
	if closed, is := errors.AsType[*lockstore.GrantsClosedError](h.Closed); is {
		if run, plain := strings.CutPrefix(closed.Hint, "run: "); plain {
			return finding{Fail, closed.Reason, command(run)}, nil
		}
		return finding{Fail, closed.Reason, advice(closed.Hint)}, nil // when to run it comes first
	}
	return finding{OK, "open", nil}, nil
}

// etcdPlan is restorePlan for a cluster.
const etcdPlan = restorePlan + " --backend etcd"

func etcdRewound(_ context.Context, _ *exam, h etcd.Health) (finding, error) {
	switch {
	case h.Sign != "":
		return finding{Fail, h.Sign, command(etcdPlan)}, nil
	case h.Revision <= h.Floor:
		return finding{Fail, fmt.Sprintf("the revision is %s, and the floor %s", h.Revision, h.Floor), command(etcdPlan)}, nil
	case h.Revision >= lockstore.MaxToken:
		return finding{Fail, fmt.Sprintf("the revision is %s, and no token above %s is accepted anywhere", h.Revision, lockstore.MaxToken), advice("somebody bumped it there: find out who, before anything else")}, nil
	}
	return finding{OK, fmt.Sprintf("the revision is %s, the floor %s", h.Revision, h.Floor), nil}, nil
}

// etcdTokensAhead compares paydb's tokens with the revision (K-7.6).
func etcdTokensAhead(ctx context.Context, e *exam, h etcd.Health) (finding, error) {
	switch {
	case e.pay.config == nil:
		return finding{OK, "no paydb is configured", nil}, nil
	case e.pay.tx == nil:
		return e.unread(e.pay), nil
	}
	highest, err := floor.Highest(ctx, e.pay.config, paystore.Token(maxToken))
	if err != nil {
		return finding{Unknown, "paydb: " + plain(err), e.pay.remedy(err)}, nil
	}
	if lockstore.Token(highest) > h.Revision {
		return finding{Fail, fmt.Sprintf("paydb holds token %d, and the revision is %s", highest, h.Revision), command(etcdPlan)}, nil
	}
	return finding{OK, fmt.Sprintf("paydb's highest is %d, the revision %s", highest, h.Revision), nil}, nil
}

// etcdMark compares the outside mark with the revision.
func etcdMark(_ context.Context, e *exam, h etcd.Health) (finding, error) {
	if e.target.MarkDir == "" {
		if h.Deployment.Kept {
			return finding{Fail, "the cluster has one, and this configuration does not say where", advice("set mark_dir to the folder that has dlock-mark-" + h.Deployment.ID + ".json")}, nil
		}
		return finding{OK, "none is kept: a copy of the members' data is told by paydb's tokens alone", nil}, nil
	}
	if h.Deployment.ID == "" {
		return finding{OK, "none yet: the first grant makes it", nil}, nil
	}
	m, err := mark.Open(e.target.MarkDir, h.Deployment.ID)
	if err != nil {
		return finding{Fail, plain(err), advice("set mark_dir to a folder that is there")}, nil
	}
	state, err := m.Read()
	switch {
	case errors.Is(err, mark.ErrMissing) && !h.Deployment.Kept:
		return finding{OK, "none yet: the first grant makes it", nil}, nil
	case err != nil:
		return finding{Fail, plain(err), command(etcdPlan)}, nil
	case state.Issued > h.Revision:
		return finding{Fail, fmt.Sprintf("token %d was shown, and the revision is %s", state.Issued, h.Revision), command(etcdPlan)}, nil
	}
	return finding{OK, fmt.Sprintf("ceiling %d, shown %d, revision %s", state.Ceiling, state.Issued, h.Revision), nil}, nil
}

func etcdRecords(_ context.Context, _ *exam, h etcd.Health) (finding, error) {
	switch {
	case h.OddErr != nil:
		return finding{Unknown, plain(h.OddErr), nil}, nil //nolint:nilerr // what cannot be read is a finding
	case len(h.Odd) > 0:
		return finding{Fail, some(h.Odd), advice("find out who wrote it below the prefix; then dlockctl revoke KEY --any-token --reason TEXT, or dlockctl session end ID, with the ID in full from dlockctl session list --show-session; etcdctl del for what is no name of a lock")}, nil
	}
	return finding{OK, "all of them", nil}, nil
}

func etcdTLS(_ context.Context, e *exam) (finding, error) {
	var open []string
	for _, address := range e.target.Etcd.Endpoints {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && !loopback(u.Hostname()) {
			open = append(open, address)
		}
	}
	if len(open) > 0 {
		return finding{Fail, "in the clear: " + strings.Join(open, ", "), advice("give the members certificates, and https:// addresses in etcd.endpoints")}, nil
	}
	return finding{OK, "TLS, or this machine", nil}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func etcdAuth(_ context.Context, e *exam, h etcd.Health) (finding, error) {
	switch {
	case h.AuthErr != nil:
		return finding{Unknown, plain(h.AuthErr), nil}, nil //nolint:nilerr // what cannot be read is a finding
	case h.Anybody && !e.target.Etcd.Certificate:
		return finding{Warn, "whoever reaches the members may write", advice("switch etcd's authentication on (etcdctl auth enable) with a user whose role is the prefix alone, or have the members ask for client certificates")}, nil
	case h.Anybody:
		return finding{OK, "a certificate is shown, and no login asked for", nil}, nil
	}
	return finding{OK, "authentication is on", nil}, nil
}
