package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// sick is a healthy cluster of one, as a patient whose health a fault may change on the
// way.
type sick struct {
	cluster *etcdtest.Cluster
	client  *clientv3.Client
	opts    etcd.Options
	target  doctor.Target
	change  func(*etcd.Health)
}

func newSick(t *testing.T, cluster *etcdtest.Cluster) *sick {
	t.Helper()
	s := &sick{cluster: cluster, client: cluster.Client(t)}
	s.opts = etcd.Options{Endpoints: cluster.Endpoints(), TLS: cluster.TLS(), Prefix: etcdtest.Prefix(t), Purpose: etcd.Granting, DialTimeout: 20 * time.Second, Timeout: 20 * time.Second}
	store, err := etcd.Open(t.Context(), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	s.target.Etcd = &doctor.Cluster{Endpoints: cluster.Endpoints(), Read: func(ctx context.Context) (etcd.Health, error) {
		h, err := etcd.ReadHealth(ctx, s.opts)
		if err == nil && s.change != nil {
			s.change(&h)
		}
		return h, err
	}}
	return s
}

// look are the checks of the cluster that are not ok.
func (s *sick) look(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for id, saw := range notOK(run(t, s.target)) {
		if slices.ContainsFunc(doctor.EtcdChecks(), func(c doctor.Check) bool { return c.ID == id }) {
			found[id] = saw
		}
	}
	return found
}

func (s *sick) put(t *testing.T, name, value string) {
	t.Helper()
	if _, err := s.client.Put(t.Context(), s.opts.Prefix+name, value); err != nil {
		t.Fatal(err)
	}
}

func (s *sick) del(name string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if _, err := s.client.Delete(t.Context(), s.opts.Prefix+name); err != nil {
			t.Fatal(err)
		}
	}
}

// A cluster is looked at in place of lockdb, each fault fails the check that is about
// it and no other, and what it is cured of passes again.
//
// Clauses: K-10.1, K-7.4, K-7.6
// Mutation: take a case out of the check of any fault.
func TestEtcdFaults(t *testing.T) {
	t.Parallel()
	s := newSick(t, etcdtest.Single(t))
	dbs := pgtest.Migrated(t, 16)
	s.target.Pay = dbs.Pay.Config(t, "t_auditor")
	well := map[string]string{
		"etcd_quorum": "warn: 1 voting members, 0 of them not started, 0 learners",
		"etcd_auth":   "warn: whoever reaches the members may write",
	}
	report := run(t, s.target)
	if !slices.Contains(report.Reached, doctor.EtcdDB) || slices.ContainsFunc(report.Results, func(r doctor.Result) bool {
		return r.Database == doctor.LockDB || r.Database == doctor.Both
	}) {
		t.Errorf("reached %v, and looked at lockdb: %v", report.Reached, report.Results)
	}
	if diff := cmp.Diff(well, s.look(t)); diff != "" {
		t.Fatalf("a cluster of one (-want +got):\n%s", diff)
	}
	revision := s.cluster.Status(t, 0).Header.Revision
	keep := func(change func(*etcd.Health)) func(*testing.T) func(*testing.T) {
		return func(*testing.T) func(*testing.T) {
			s.change = change
			return func(*testing.T) { s.change = nil }
		}
	}
	aside := func(change func(*doctor.Target)) func(*testing.T) func(*testing.T) {
		return func(*testing.T) func(*testing.T) {
			before, cluster := s.target, *s.target.Etcd
			s.target.Etcd = &cluster
			change(&s.target)
			return func(*testing.T) { s.target = before }
		}
	}
	for _, f := range []struct {
		check, saw string
		plant      func(*testing.T) (cure func(*testing.T))
	}{
		{"etcd_endpoints", "warn: no answer from http://127.0.0.1:1", func(*testing.T) func(*testing.T) {
			before := s.opts
			s.opts.Endpoints, s.opts.Timeout = append(s.opts.Endpoints, "http://127.0.0.1:1"), 8*time.Second // which it takes
			return func(*testing.T) { s.opts = before }
		}},
		{"etcd_endpoints", "fail: the addresses belong to different clusters", keep(func(h *etcd.Health) {
			other := h.Endpoints[0]
			other.Cluster++
			h.Endpoints = append(h.Endpoints, other)
		})},
		{"etcd_endpoints", "warn: " + s.cluster.Endpoint(0) + ": memory", keep(func(h *etcd.Health) { h.Endpoints[0].Errors = []string{"memory"} })},
		{"etcd_leader", "fail: a member knows no leader", keep(func(h *etcd.Health) { h.Endpoints[0].Leader = 0 })},
		{"etcd_quorum", "warn: 4 voting members, 0 of them not started, 0 learners", keep(func(h *etcd.Health) {
			h.Members = slices.Repeat(h.Members, 4)
		})},
		{"etcd_quorum", "warn: 3 voting members, 1 of them not started, 1 learners", keep(func(h *etcd.Health) {
			h.Members = append(slices.Repeat(h.Members, 2), etcd.Member{}, etcd.Member{Name: "l", Learner: true})
		})},
		{"etcd_version", "fail: etcd 3.4.30", keep(func(h *etcd.Health) { h.Endpoints[0].Version = "3.4.30" })},
		{"etcd_version", "fail: etcd 3.5.13", keep(func(h *etcd.Health) { h.Endpoints[0].Version = "3.5.13" })},
		{"etcd_version", "fail: etcd 3.6", keep(func(h *etcd.Health) { h.Endpoints[0].Version = "3.6" })},
		{"etcd_version", "warn: etcd 3.5.14, 3.5.20", keep(func(h *etcd.Health) {
			other := h.Endpoints[0]
			other.Version, h.Endpoints[0].Version = "3.5.20", "3.5.14"
			h.Endpoints = append(h.Endpoints, other)
		})},
		{"etcd_version", "warn: etcd 3.6.1, 3.7.3", keep(func(h *etcd.Health) {
			other := h.Endpoints[0]
			other.Version, h.Endpoints[0].Version = "3.7.3", "3.6.1"
			h.Endpoints = append(h.Endpoints, other)
		})},
		{"etcd_space", "warn: " + s.cluster.Endpoint(0) + " 90 MiB of 100", keep(func(h *etcd.Health) {
			h.Endpoints[0].Size, h.Endpoints[0].Quota = 90<<20, 100<<20
		})},
		{"etcd_gate", "fail: the etcd cluster grants no locks: closed by erin@ops: ticket 7", func(t *testing.T) func(*testing.T) {
			opts := s.opts
			opts.Purpose = etcd.Changing
			gate, err := etcd.OpenRewinder(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			change := lockstore.GateChange{Operator: "erin@ops", Reason: "ticket 7"}
			if _, err := gate.CloseGate(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			return func(t *testing.T) {
				if _, err := gate.OpenGate(t.Context(), change); err != nil {
					t.Fatal(err)
				}
				gate.Close(t.Context())
			}
		}},
		{"etcd_rewound", "fail: it was another", keep(func(h *etcd.Health) { h.Sign = "it was another" })},
		{"etcd_rewound", fmt.Sprintf("fail: the revision is %d, and no token above %d is accepted anywhere", 1<<53, 1<<53), keep(func(h *etcd.Health) { h.Revision = 1 << 53 })},
		{"etcd_rewound", "", func(t *testing.T) func(*testing.T) {
			s.put(t, "meta/floor", strconv.FormatInt(revision+1_000_000, 10))
			return s.del("meta/floor")
		}},
		{"etcd_tokens_ahead", "", func(t *testing.T) func(*testing.T) {
			exec(t, dbs.Pay, fmt.Sprintf(`INSERT INTO account (account_id, currency, fence) VALUES ('00000000-0000-4000-8000-00000000ffff', 'EUR', %d)`, revision+1_000_000))
			// A fence never goes back, so that another paydb is the cure.
			return func(t *testing.T) { s.target.Pay = pgtest.Migrated(t, 16).Pay.Config(t, "t_auditor") }
		}},
		{"etcd_mark", "fail: the cluster has one, and this configuration does not say where", keep(func(h *etcd.Health) {
			h.Deployment = lockstore.Deployment{ID: "00000000-0000-4000-8000-000000000007", Kept: true}
		})},
		{"etcd_mark", "", aside(func(target *doctor.Target) {
			target.MarkDir = "/nowhere"
			s.change = func(h *etcd.Health) { h.Deployment.ID = "00000000-0000-4000-8000-000000000007" }
		})},
		{"etcd_tls", "fail: in the clear: http://etcd.example:2379", aside(func(target *doctor.Target) {
			s.change = nil
			target.Etcd.Endpoints = []string{"http://etcd.example:2379"}
		})},
		{"etcd_records", `fail: lock "a b" (etcd key "` + s.opts.Prefix + `lock/a%20b"): unexpected end of JSON input`, func(t *testing.T) func(*testing.T) {
			s.put(t, "lock/a%20b", "")
			return s.del("lock/a%20b")
		}},
		{"etcd_records", `fail: etcd key "` + s.opts.Prefix + `lock/x y", which is no name of a lock: it is not this lock's record`, func(t *testing.T) func(*testing.T) {
			s.put(t, "lock/x y", `{"key":"x y","session_id":"s"}`)
			return s.del("lock/x y")
		}},
		{"etcd_records", "fail: session 12345678…: read the session's record: unexpected end of JSON input", func(t *testing.T) func(*testing.T) {
			s.put(t, "session/12345678-1111-4222-8333-444455556666", "")
			return s.del("session/12345678-1111-4222-8333-444455556666")
		}},
		{"etcd_records", "unknown: not allowed", keep(func(h *etcd.Health) { h.OddErr = errors.New("not allowed") })},
		{"etcd_alarms", "unknown: not allowed", keep(func(h *etcd.Health) { h.AlarmsErr = errors.New("not allowed") })},
		{"etcd_auth", "unknown: not allowed", keep(func(h *etcd.Health) { h.AuthErr = errors.New("not allowed") })},
	} {
		cure := f.plant(t)
		got := s.look(t)
		if got[f.check] == well[f.check] || f.saw != "" && got[f.check] != f.saw {
			t.Errorf("%s saw %q, want %q", f.check, got[f.check], f.saw)
		}
		for id, saw := range got {
			if id != f.check && saw != well[id] {
				t.Errorf("%s: %s saw %q as well", f.check, id, saw)
			}
		}
		cure(t)
		if diff := cmp.Diff(well, s.look(t)); diff != "" {
			t.Fatalf("%s, cured (-want +got):\n%s", f.check, diff)
		}
	}
}

// The advice about a record that cannot be read says where a session's id is told in full:
// what the check saw masks it.
//
// Clauses: K-2.12, K-10.1
// Mutation: leave --show-session out of the advice of etcdRecords.
func TestEtcdRecordsSayWhereTheIDIs(t *testing.T) {
	t.Parallel()
	s := newSick(t, etcdtest.Single(t))
	const id = "12345678-1111-4222-8333-444455556666"
	s.put(t, "session/"+id, "")
	results := run(t, s.target).Results
	i := slices.IndexFunc(results, func(r doctor.Result) bool { return r.ID == "etcd_records" })
	if r := results[i]; r.Fix == nil || strings.Contains(r.Saw, id) || !strings.Contains(r.Fix.Advice, "dlockctl session list --show-session") {
		t.Errorf("etcd_records: %+v, fix %+v", r, r.Fix)
	}
}

// An alarm that a member has raised is told, and a cluster that is gone is, once: the
// rest is unknown.
//
// Clauses: K-10.1
// Mutation: return ok for a health with an error in onEtcd; leave the alarms out.
func TestEtcdAlarmAndAway(t *testing.T) {
	t.Parallel()
	s := newSick(t, etcdtest.Start(t, etcdtest.Options{Nodes: 1}))
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	if got := s.look(t)["etcd_alarms"]; got != "fail: NOSPACE on member 0" {
		t.Errorf("etcd_alarms saw %q", got)
	}
	s.cluster.Kill(t, 0)
	s.opts.DialTimeout, s.opts.Timeout = time.Second, time.Second
	report := run(t, s.target)
	for _, r := range report.Results {
		want := doctor.Unknown
		switch {
		case r.Database != doctor.EtcdDB, r.ID == "etcd_tls":
			continue
		case r.ID == "etcd_reachable":
			want = doctor.Fail
		}
		if r.Status != want {
			t.Errorf("%s: %s %q, want %s", r.ID, r.Status, r.Saw, want)
		}
	}
	if len(report.Reached) != 0 {
		t.Errorf("reached %v", report.Reached)
	}
}
