package restore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// etcdWorld is a cluster of one member without payments, and an outside mark.
type etcdWorld struct {
	*testing.T
	cluster *etcdtest.Cluster
	options etcd.Options
}

func newEtcdWorld(t *testing.T) etcdWorld {
	t.Helper()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	return etcdWorld{t, c, etcd.Options{Endpoints: c.Endpoints(), Timeout: 20 * time.Second, DialTimeout: 20 * time.Second, MarkDir: t.TempDir()}}
}

func (w etcdWorld) grant(key string) (lockstore.Token, error) {
	w.Helper()
	opts := w.options
	opts.Purpose = etcd.Granting
	store, err := etcd.Open(w.Context(), opts)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	session, err := store.CreateSession(w.Context(), "alice", time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	grant, err := store.Acquire(w.Context(), lockstore.AcquireParams{Key: key, Owner: "alice", Session: session.ID, TTL: time.Hour})
	return grant.Token, err
}

func (w etcdWorld) mustGrant(key string) lockstore.Token {
	w.Helper()
	token, err := w.grant(key)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

func (w etcdWorld) stores() restore.Stores {
	w.Helper()
	opts := w.options
	opts.Purpose = etcd.Changing
	lock, err := etcd.OpenRewinder(w.Context(), opts)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { lock.Close(context.WithoutCancel(w.Context())) })
	deployment, err := lock.Deployment(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	m, err := mark.Open(w.options.MarkDir, deployment.ID)
	if err != nil {
		w.Fatal(err)
	}
	return restore.Stores{Lock: lock, NoPayments: true, Mark: m}
}

func (w etcdWorld) fastForward(opts restore.Options) restore.Result {
	w.Helper()
	opts.Operator, opts.Reason = "erin", "snapshot restored, ticket 812"
	result, err := restore.FastForward(w.Context(), w.stores(), opts)
	if err != nil {
		w.Fatal(err)
	}
	return result
}

func (w etcdWorld) verify() restore.Verification {
	w.Helper()
	found, err := restore.Verify(w.Context(), w.stores(), restore.Options{})
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// A restored etcd cluster is brought to where no token is issued twice: by the bump that
// the plan computes from the evidence, while no member runs, and a fast-forward that
// finishes it, run twice without harm; or, where the gap is small, while it runs.
//
// Clauses: K-7.2, K-7.3, K-7.4, K-7.5, K-10.1
// Mutation: count the revision as drawn in Source, drop Beyond from it, or read the mark
// against the revision in verify.
func TestFastForwardOfEtcd(t *testing.T) {
	t.Parallel()
	w := newEtcdWorld(t)
	w.mustGrant("held")
	snapshot := w.cluster.Snapshot(t)
	lost := w.mustGrant("lost")
	w.cluster.RestoreAll(t, snapshot, etcdtest.Restore{})

	plan, err := restore.Prepare(t.Context(), w.stores(), restore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Outcome != restore.RefusedConfig || plan.Observed < lost || plan.Gate.Open() || len(plan.Signs) == 0 ||
		!strings.Contains(strings.Join(plan.Fixes, " "), "--bump "+plan.Target.String()) {
		t.Fatalf("the plan: %+v", plan)
	}
	if found := w.verify(); found.Safe {
		t.Error("a rewound cluster is called safe")
	}
	w.cluster.RestoreAll(t, snapshot, etcdtest.Restore{Bump: uint64(plan.Target), NewToken: true})
	if _, err := w.grant("early"); !errors.As(err, new(*lockstore.GrantsClosedError)) {
		t.Errorf("granted before the fast-forward: %v", err)
	}
	result := w.fastForward(restore.Options{})
	if result.Outcome != restore.Advanced || !result.GateOpen || !result.Moved || result.To != plan.Target || result.LocksVoided != 1 || result.SessionsVoided != 1 {
		t.Fatalf("the fast-forward: %+v", result)
	}
	if result := w.fastForward(restore.Options{}); result.Outcome != restore.Safe || !result.GateOpen {
		t.Errorf("run again: %+v", result)
	}
	if found := w.verify(); !found.Safe {
		t.Errorf("not safe: %+v", found.Findings)
	}
	token := w.mustGrant("held")
	if token <= plan.Target {
		t.Errorf("token %s was granted, below the target %s", token, plan.Target)
	}

	// Again, a little: as long as the gap can be written.
	snapshot = w.cluster.Snapshot(t)
	lost = w.mustGrant("lost")
	w.cluster.RestoreAll(t, snapshot, etcdtest.Restore{})
	result = w.fastForward(restore.Options{Margin: 1000})
	if result.Outcome != restore.Advanced || result.To <= lost || !result.GateOpen {
		t.Fatalf("a fast-forward in reach: %+v", result)
	}
	if token := w.mustGrant("held"); token <= result.To {
		t.Errorf("token %s was granted, below the target %s", token, result.To)
	}
}
