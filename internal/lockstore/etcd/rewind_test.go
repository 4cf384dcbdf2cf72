package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// breakable is a member of a test's own, and a place on it.
func breakable(t *testing.T) (*etcdtest.Cluster, etcd.Options) {
	t.Helper()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	return c, etcd.Options{Endpoints: c.Endpoints(), Prefix: "place", Purpose: etcd.Granting, Timeout: 20 * time.Second, DialTimeout: 20 * time.Second}
}

// grant acquires a key of its own under a new session.
func grant(t *testing.T, store lockstore.Store, key string) (lockstore.Grant, error) {
	t.Helper()
	return store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "alice", Session: session(t, store, "alice", time.Hour), TTL: time.Hour})
}

func mustGrant(t *testing.T, store lockstore.Store, key string) lockstore.Token {
	t.Helper()
	grant, err := grant(t, store, key)
	if err != nil {
		t.Fatal(err)
	}
	return grant.Token
}

// refused wants a refusal to grant that says why, and what to run.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	closed, ok := errors.AsType[*lockstore.GrantsClosedError](err)
	if !ok || !strings.Contains(closed.Reason, says) || !strings.Contains(closed.Hint, "dlockctl restore plan --backend etcd") {
		t.Errorf("%s: want a refusal that says %q and names the command; got %v", what, says, err)
	}
}

func tryOpen(t *testing.T, opts etcd.Options) error {
	t.Helper()
	store, err := etcd.Open(t.Context(), opts)
	if err == nil {
		store.Close()
	}
	return err
}

// A snapshot that was restored is noticed by whoever comes after it, with the address
// and token of before and with others, bumped or not; and by who lived through it. A
// restart of the members is no restore.
//
// Clauses: K-10.1, K-7.6
// Mutation: drop the comparison with the cluster's id or with the lead from judge, the
// comparison with what was shown from standing, or the Sign that enterEra records.
func TestRestoredClusterIsRefused(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]struct {
		how  etcdtest.Restore
		says string
		// alive is what a process says that lived through it.
		alive string
	}{
		"rewound":           {etcdtest.Restore{}, "its raft log", "its raft log"},
		"under a new token": {etcdtest.Restore{NewToken: true}, "its id is", "its id is"},
		"bumped":            {etcdtest.Restore{Bump: 1 << 33}, "its raft log", "its raft log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, opts := breakable(t)
			alive := open(t, opts)
			mustGrant(t, alive, "a")
			c.Kill(t, 0)
			c.Restart(t, 0)
			if err := tryOpen(t, opts); err != nil {
				t.Errorf("after a restart of the members: %v", err)
			}
			mustGrant(t, alive, "b")
			snapshot := c.Snapshot(t)
			mustGrant(t, alive, "lost")

			c.RestoreAll(t, snapshot, restored.how)
			refused(t, "who lived through it", lastOf(grant(t, alive, "c")), restored.alive)
			refused(t, "who comes after it", tryOpen(t, opts), restored.says)
			reading := opts
			reading.Purpose = etcd.Changing
			if err := tryOpen(t, reading); err != nil {
				t.Errorf("release and revoke: %v", err)
			}
			// Leases enough to cover the sign; what was seen stays.
			for range 40 {
				if _, err := c.Client(t).Grant(t.Context(), 60); err != nil {
					t.Fatal(err)
				}
			}
			refused(t, "much later", tryOpen(t, opts), restored.says)
		})
	}
}

func lastOf(_ lockstore.Grant, err error) error { return err }

// A copy of the member's own data, put back in its place, shows no sign of itself: the
// process that lived on knows, and otherwise only the outside mark and paydb do.
//
// Clauses: K-7.6
// Mutation: drop the comparison with what was shown, or that with paydb, from standing;
// hear from it; or the skip to the ceiling from compare.
func TestCopiedBackClusterIsRefused(t *testing.T) {
	t.Parallel()
	c, opts := breakable(t)
	marked := opts
	marked.Prefix, marked.MarkDir = "marked", t.TempDir()
	alive, keeper := open(t, opts), open(t, marked)
	mustGrant(t, keeper, "a")
	first := mustGrant(t, alive, "a")
	c.Stop(t, 0)
	data := c.Membership(0).DataDir
	saved := t.TempDir()
	if err := os.CopyFS(saved, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 0)
	var shown lockstore.Token
	for i := range 10 { // far ahead of what the looks below write
		shown = mustGrant(t, keeper, fmt.Sprintf("b%d", i))
	}
	keeper.Close() // which tells the mark
	lost := mustGrant(t, alive, "b")
	c.Wipe(t, 0)
	if err := os.CopyFS(data, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 0)

	refused(t, "who lived through it", lastOf(grant(t, alive, "c")), "this process knows")
	refused(t, "who reads the mark", lastOf(grant(t, open(t, marked), "c")), "the outside mark")
	asks := opts
	asks.PayHighest = func(context.Context) (lockstore.Token, error) { return shown, nil }
	refused(t, "who asks paydb", lastOf(grant(t, open(t, asks), "c")), "paydb holds token")
	// The control: without any of these, the tokens are issued again.
	if again := mustGrant(t, open(t, opts), "c"); again <= first || again > lost {
		t.Errorf("token %s was issued; those lost were above %s up to %s", again, first, lost)
	}
}

// What the mark's ceiling covers is skipped: somebody may have been shown it who died
// before he told.
//
// Clauses: K-7.6
// Mutation: drop skip from compare.
func TestCeilingIsSkipped(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Purpose, opts.MarkDir = etcd.Granting, t.TempDir()
	first := mustGrant(t, open(t, opts), "a")
	// The first grant has raised the ceiling a block ahead, which is 64 at least.
	if second := mustGrant(t, open(t, opts), "b"); second < first+64 {
		t.Errorf("another process was granted %s, below the ceiling above %s", second, first)
	}
	opts.MarkDir = ""
	err := lastOf(grant(t, open(t, opts), "c"))
	if unsafe, ok := errors.AsType[*lockstore.UnsafeError](err); !ok || unsafe.Clause != "K-7.6" {
		t.Errorf("a mark is kept, and nobody is told where: %v", err)
	}
}

func rewinder(t *testing.T, opts etcd.Options) *etcd.Rewinder {
	t.Helper()
	opts.Purpose = etcd.Changing
	r, err := etcd.OpenRewinder(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.WithoutCancel(t.Context())) })
	return r
}

func advanceTo(target lockstore.Token) lockstore.AdvanceParams {
	return lockstore.AdvanceParams{
		Operator: "erin", Reason: "restored", Limit: lockstore.MaxToken,
		Decide: func(lockstore.AdvanceView) (lockstore.Decision, error) {
			return lockstore.Decision{Target: target}, nil
		},
	}
}

// An advance voids every lock with an audit record, and every session; it refuses every
// token up to its target, moves forward only, and what it recorded stays when it is run
// again. What a running cluster does not come to is refused with the command that does.
//
// Clauses: K-7.4, K-7.5, K-7.7, K-10.1
// Mutation: drop voidLocks, voidSessions, the floor or the record from move, pass from
// advance, or the floor from the grant.
func TestAdvance(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Purpose = etcd.Granting
	store, r := open(t, opts), rewinder(t, opts)
	held := session(t, store, "alice", time.Hour)
	var last lockstore.Token
	const locks = 60 // more than one transaction voids
	for i := range locks {
		grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k" + strings.Repeat("x", i), Owner: "alice", Session: held, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		last = grant.Token
	}
	errRefused := errors.New("refused")
	no := advanceTo(0)
	no.Decide = func(view lockstore.AdvanceView) (lockstore.Decision, error) {
		if view.Source.Last < last || view.Source.Newest() != last || !view.Gate.Open() || len(view.Evidence) != 5 || view.Evidence[0].Value != last {
			t.Errorf("the view: %+v", view)
		}
		return lockstore.Decision{}, errRefused
	}
	if _, err := r.Advance(t.Context(), no); !errors.Is(err, errRefused) {
		t.Errorf("refused: %v", err)
	}
	target := last + 5000
	done, err := r.Advance(t.Context(), advanceTo(target))
	if err != nil || !done.Moved || done.To != target || done.SessionsVoided != 1 || done.LocksVoided != locks || done.RecordID == 0 {
		t.Fatalf("advance: %+v, %v", done, err)
	}
	for _, again := range []lockstore.Token{target, target - 1000} {
		if done, err = r.Advance(t.Context(), advanceTo(again)); err != nil || done.Moved || done.To != target || done.RecordID != 0 {
			t.Errorf("advance again to %s: %+v, %v", again, done, err)
		}
	}
	rows, err := store.Revocations(t.Context(), lockstore.RevocationFilter{Operator: "erin"})
	if err != nil || len(rows) != locks {
		t.Errorf("%d audit records, want %d: %v", len(rows), locks, err)
	}
	if _, err := store.Heartbeat(t.Context(), held, time.Hour); !errors.Is(err, lockstore.ErrSessionLost) {
		t.Errorf("the voided session: %v", err)
	}
	if entries, err := store.List(t.Context(), lockstore.Filter{}); err != nil || len(entries) != 0 {
		t.Errorf("%d locks are left: %v", len(entries), err)
	}
	if token := mustGrant(t, store, "next"); token <= target {
		t.Errorf("token %s was granted, below the target %s", token, target)
	}
	found, err := r.FastForwards(t.Context())
	if err != nil || len(found.Targets) != 1 || found.Targets[0] != target || found.LastAction != lockstore.ActionFastForward || !found.LastHere {
		t.Errorf("what was recorded: %+v, %v", found, err)
	}

	_, err = r.Advance(t.Context(), advanceTo(1<<40))
	unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
	if !ok || !strings.HasSuffix(unsafe.Fix, "--bump 1099511627776") {
		t.Errorf("out of reach: %v", err)
	}
	// Once it is recorded, nothing is granted until somebody bumps the revision.
	refused(t, "below the floor", lastOf(grant(t, store, "below")), "not above the floor")
}

// The gate closes for a fast-forward and for a freeze, each opened by whoever closed it,
// with a record of each freeze and thaw.
//
// Clauses: K-7.4, K-7.7
// Mutation: drop a comparison from OpenGate, or the record from gateTxn.
func TestGateOfEtcd(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Purpose = etcd.Granting
	store, r := open(t, opts), rewinder(t, opts)
	mustGrant(t, store, "a")
	change := func(run string) lockstore.GateChange {
		return lockstore.GateChange{Operator: "erin", Reason: "ticket 812", Run: run, Done: 1}
	}
	gate, err := r.CloseGate(t.Context(), change(""))
	if err != nil || gate.Open() || gate.ClosedBy != "erin" || !gate.Here {
		t.Fatalf("freeze: %+v, %v", gate, err)
	}
	if err := lastOf(grant(t, store, "b")); err == nil {
		t.Error("granted though frozen")
	}
	if gate, err = r.CloseGate(t.Context(), change("one")); err != nil || gate.Run == nil || gate.ClosedBy == "" {
		t.Fatalf("close: %+v, %v", gate, err)
	}
	if _, err = r.OpenGate(t.Context(), change("two")); !isMoved(err) {
		t.Errorf("opened by another run: %v", err)
	}
	if gate, err = r.OpenGate(t.Context(), change("")); err != nil || gate.Open() || gate.ClosedBy != "" || gate.Run == nil {
		t.Errorf("thaw beside a run: %+v, %v", gate, err)
	}
	if _, err = r.OpenGate(t.Context(), change("")); !isMoved(err) {
		t.Errorf("thawed twice: %v", err)
	}
	if gate, err = r.OpenGate(t.Context(), change("one")); err != nil || !gate.Open() {
		t.Errorf("open: %+v, %v", gate, err)
	}
	mustGrant(t, store, "b")
	records, err := store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{})
	var actions []string
	for _, record := range records {
		actions = append(actions, record.Action)
	}
	if got := strings.Join(actions, " "); err != nil || got != "fast_forward_done thaw freeze" {
		t.Errorf("recorded: %s, %v", got, err)
	}
}

func isMoved(err error) bool {
	_, ok := errors.AsType[*lockstore.GateMovedError](err)
	return ok
}
