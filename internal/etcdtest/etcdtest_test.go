//go:build unix

package etcdtest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/leaktest"
)

func TestMain(m *testing.M) {
	etcdtest.Main(m)
	// Every cluster has been stopped: what is left has leaked.
	leaktest.Exit()
}

// put writes a key through one member, with a deadline of its own.
func put(t *testing.T, client *clientv3.Client, within time.Duration) (revision int64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	answer, err := client.Put(ctx, "k", "v")
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}

// writes requires that a member writes, in time: what an election cost is tried again.
func writes(t *testing.T, client *clientv3.Client, what string) {
	t.Helper()
	for start := time.Now(); ; {
		_, err := put(t, client, 30*time.Second)
		if err == nil {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s does not write: %v", what, err)
		}
	}
}

func TestFaultsOfThreeMembers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	leader := c.Leader(t)
	writes(t, c.Client(t, leader), "the leader")

	c.Cut(t, leader)
	if now := c.Leader(t); now == leader {
		t.Errorf("member %d is cut off and leads", leader)
	}
	if revision, err := put(t, c.Client(t, leader), 2*time.Second); err == nil {
		t.Errorf("a member cut off from its peers wrote revision %d", revision)
	}
	writes(t, c.Client(t, (leader+1)%3), "the majority")
	c.Heal(t, leader)
	writes(t, c.Client(t, leader), "a member healed")

	leader = c.Leader(t)
	c.Kill(t, leader)
	if now := c.Leader(t); now == leader {
		t.Errorf("member %d is dead and leads", leader)
	}
	c.Restart(t, leader)

	leader = c.Leader(t)
	c.Pause(t, leader)
	if now := c.Leader(t); now == leader {
		t.Errorf("member %d stands still and leads", leader)
	}
	c.Continue(t, leader)
	c.Ready(t)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	client := c.Client(t)
	first, err := put(t, client, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := c.Snapshot(t)
	lost, err := put(t, client, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Status(t, 0).Header.ClusterId

	c.RestoreAll(t, snapshot, etcdtest.Restore{})
	client = c.Client(t) // the one before may be waiting for its next try to connect
	again, err := put(t, client, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if again > lost {
		t.Errorf("after a restore revision %d was written, not one from before %d", again, lost)
	}
	if now := c.Status(t, 0).Header.ClusterId; now != before {
		t.Errorf("restored under the same token the cluster's id is %x, was %x", now, before)
	}

	c.RestoreAll(t, snapshot, etcdtest.Restore{Bump: 1000, NewToken: true})
	client = c.Client(t)
	if again, err = put(t, client, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if again != first+1001 {
		t.Errorf("a revision after %d, bumped by 1000, is %d", first, again)
	}
	if now := c.Status(t, 0).Header.ClusterId; now == before {
		t.Errorf("restored under another token the cluster's id is %x still", now)
	}
	_, err = client.Get(t.Context(), "k", clientv3.WithRev(first))
	if !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a revision from before the restore was read: %v", err)
	}
}

func TestSlowDisk(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1, SlowDisk: true})
	if _, err := put(t, c.Client(t), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	c.Delay(t, 0, time.Hour)
	client := c.Client(t)
	for start := time.Now(); ; { // the member hears of it a moment later
		revision, err := put(t, client, time.Second)
		if err != nil {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("revision %d did not wait for the disk", revision)
		}
	}
}

// A member whose address is taken starts when it is free again.
//
// Mutation: have until take errPortTaken for final in again.
func TestRestartOnATakenAddress(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	c.Kill(t, 0)
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp4", strings.TrimPrefix(c.Endpoint(0), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var refused errgroup.Group
	refused.Go(func() error {
		defer taken.Close()
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			log, err := os.ReadFile(c.Membership(0).DataDir + ".log")
			if err != nil || strings.Contains(string(log), "closing etcd server") { // which its killed process did not
				return err
			}
		}
	})
	c.Restart(t, 0)
	if err := refused.Wait(); err != nil {
		t.Error(err)
	}
	writes(t, c.Client(t), "the member")
}

func TestTLSIsDemanded(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1, TLS: true})
	if _, err := put(t, c.Client(t), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	bare := c.TLS().Clone()
	bare.Certificates = nil
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: bare})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if revision, err := put(t, client, time.Second); err == nil {
		t.Errorf("a client without a certificate wrote revision %d", revision)
	}
}

func TestSingleIsShared(t *testing.T) {
	t.Parallel()
	if a, b := etcdtest.Single(t), etcdtest.Single(t); a != b {
		t.Error("two calls gave two clusters")
	}
	if _, err := put(t, etcdtest.Single(t).Client(t), 30*time.Second); err != nil {
		t.Error(err)
	}
}
