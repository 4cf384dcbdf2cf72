package etcd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// patience bounds what takes as long as it takes.
const patience = time.Minute

// nemesis breaks a cluster of three in every way, one after the other, and lets work be
// done in between.
type nemesis struct {
	*testing.T
	cluster *etcdtest.Cluster
}

// until asks until the answer is yes.
func (n nemesis) until(what string, ask func() bool) {
	n.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-deadline:
			n.Fatalf("%s: it never did", what)
		case <-tick.C:
		}
	}
}

// work waits until the clients have changed something, many times.
func (n nemesis) work() {
	n.Helper()
	const changes = 30
	leader := n.cluster.Leader(n.T)
	from := n.cluster.Status(n.T, leader).Header.Revision
	n.until("the clients work", func() bool { return n.cluster.Status(n.T, leader).Header.Revision >= from+changes })
}

// elected waits until another member leads, which works too.
func (n nemesis) elected(before int) {
	n.Helper()
	n.until("another member leads", func() bool { return n.cluster.Leader(n.T) != before })
	n.work()
}

func (n nemesis) play() {
	n.Helper()
	c := n.cluster
	n.work()

	leader := c.Leader(n.T)
	c.Kill(n.T, leader)
	n.elected(leader)
	c.Restart(n.T, leader)

	leader = c.Leader(n.T)
	c.Cut(n.T, leader)
	n.elected(leader)
	c.Heal(n.T, leader)

	leader = c.Leader(n.T)
	c.Pause(n.T, leader)
	n.elected(leader)
	c.Continue(n.T, leader)
	c.Ready(n.T)

	leader = c.Leader(n.T)
	c.Delay(n.T, leader, 100*time.Millisecond)
	n.work()
	c.Delay(n.T, leader, 0)

	for i := range 3 {
		c.Kill(n.T, i)
	}
	c.Restart(n.T, 0, 1, 2)
	n.work()
}

// Through a leader that is killed, cut off, stopped and slowed down, and through the end
// of all members at once, what the clients are told is explained: no token comes twice,
// none falls, and no lock has two holders who trust it. Then a snapshot is restored to
// all members, and nothing is granted any more, by old clients or new: the next revision
// is one that was somebody's token.
//
// Clauses: K-1.3, K-1.4, K-2.9, K-2.10, K-7.6, K-10.1
// Mutation: refused() for a code that stands for an unknown outcome, such as Unavailable;
// count a lease's trust from the answer; or drop compare from admit. What takes a
// comparison out of a transaction is in TestControls, which feed the same checker.
func TestHistoryThroughFaults(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{SlowDisk: true})
	opts := etcd.Options{Endpoints: c.Endpoints(), Prefix: "faults", Timeout: 3 * time.Second, DialTimeout: patience}
	first := c.Status(t, 0).RaftTerm
	var over atomic.Bool
	least := locktest.Stats{Clients: 12, Keys: 8, Ops: 800, Takeovers: 10, Unknown: 15}
	workload := locktest.Workload{
		Clients: clients(t, least.Clients, opts), Keys: least.Keys, Seed: seed, Least: least, Until: over.Load, Limit: 8 * time.Minute,
		ShortTTL: 200 * time.Millisecond, LongTTL: 2 * time.Second,
	}
	var history locktest.History
	var group errgroup.Group
	group.Go(func() (err error) {
		history, err = workload.Run(t.Context())
		return err
	})
	nemesis{t, c}.play()
	over.Store(true)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	// Killed, cut off, stopped, all ended: a leader each, at least.
	if now := c.Status(t, c.Leader(t)).RaftTerm; now < first+4 {
		t.Errorf("the raft term rose from %d to %d only: not every fault cost a leader", first, now)
	}
	locktest.Require(t, history, rules(), least)

	opts.Timeout = patience
	alive := open(t, opts)
	snapshot := c.Snapshot(t)
	var lost lockstore.Token
	for i := range 10 {
		lost = mustGrant(t, alive, fmt.Sprintf("lost-%d", i))
	}
	c.RestoreAll(t, snapshot, etcdtest.Restore{})
	refused(t, "an old client", lastOf(grant(t, alive, "after")), "its raft log")
	granting := opts
	granting.Purpose = etcd.Granting
	refused(t, "a new client", tryOpen(t, granting), "its raft log")
	if next := c.Status(t, c.Leader(t)).Header.Revision + 1; next > int64(lost) {
		t.Errorf("the next revision is %d, above the lost token %s: this proves nothing", next, lost)
	}
}

// holderVariable makes the test binary a holder: its value is how to reach the cluster.
const holderVariable = "DLOCKCTL_TEST_HOLDER"

// held is what a holder says of its grant.
type held struct {
	Token        lockstore.Token `json:"token"`
	TrustedUntil time.Time       `json:"trusted_until"`
}

// hold is the other process: it acquires, says so, and does what it is told.
func hold(ctx context.Context, place string, orders io.Reader, out io.Writer) error {
	endpoint, prefix, _ := strings.Cut(place, " ")
	store, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{endpoint}, Prefix: prefix, Purpose: etcd.Granting, Timeout: patience})
	if err != nil {
		return err
	}
	defer store.Close()
	const ttl = 2 * time.Second
	grant, err := lockstore.Grant{}, lockstore.ErrSessionLost
	for errors.Is(err, lockstore.ErrSessionLost) { // it was over before the grant
		session, created := store.CreateSession(ctx, "paused", ttl)
		if created != nil {
			return created
		}
		grant, err = store.Acquire(ctx, lockstore.AcquireParams{Key: "k", Owner: "paused", Session: session.ID, TTL: ttl})
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(held{grant.Token, grant.TrustedUntil().Round(0)}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		switch lines.Text() {
		case "renew":
			_, err := store.Renew(ctx, "k", grant.Token, ttl)
			fmt.Fprintln(out, errors.Is(err, lockstore.ErrLockLost))
		case "release":
			release, err := store.Release(ctx, "k", grant.Token)
			fmt.Fprintln(out, err == nil && release.Stale)
		}
	}
	return nil
}

// A holder that is stopped past the end of its lease loses it, not before its own trust
// has ended; when it goes on, it is told so, and takes nothing from who came after it.
//
// Clauses: K-2.6, K-2.7, K-2.10, K-10.1
// Mutation: drop the comparison with the token from Release; or return zero from lifeLeft,
// and drop the comparison of the holder's life from the takeover.
func TestHolderStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	opts := options(t)
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), holderVariable+"="+opts.Endpoints[0]+" "+opts.Prefix)
	orders, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	says := bufio.NewScanner(out)
	var paused held
	if !says.Scan() || json.Unmarshal(says.Bytes(), &paused) != nil {
		t.Fatalf("the holder said %q", says.Text())
	}
	if err := command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	store := open(t, opts)
	next := session(t, store, "next", time.Hour)
	var token lockstore.Token
	eventually(t, "the key becomes free", func(ctx context.Context) (bool, error) {
		grant, err := store.Acquire(ctx, lockstore.AcquireParams{Key: "k", Owner: "next", Session: next, TTL: time.Hour})
		if _, isHeld := errors.AsType[*lockstore.HeldError](err); isHeld {
			return false, nil
		}
		token = grant.Token
		return err == nil, err
	})
	if now := time.Now(); now.Before(paused.TrustedUntil) {
		t.Errorf("taken over %s before the holder's trust ended", paused.TrustedUntil.Sub(now))
	}
	if token <= paused.Token {
		t.Errorf("token %s after %s", token, paused.Token)
	}
	if err := command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"release", "renew"} {
		if _, err := fmt.Fprintln(orders, order); err != nil {
			t.Fatal(err)
		}
		if !says.Scan() || says.Text() != "true" {
			t.Errorf("after the pause, %s was not told that the lock is lost: %q", order, says.Text())
		}
	}
	if err := errors.Join(orders.Close(), command.Wait()); err != nil {
		t.Error(err)
	}
	if entry, err := store.Show(t.Context(), "k"); err != nil || entry.Token != token || entry.Expired {
		t.Errorf("who came after it has %+v, %v", entry, err)
	}
}
