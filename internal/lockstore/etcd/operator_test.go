package etcd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// A revoke that fences draws F above the grant and below every later one, and records it
// with what is to be raised; the revision of the transaction that revokes is F.
//
// Clauses: K-3.2, K-10.1
// Mutation: leave OwnToken out of the record, or the comparison of the gate.
func TestRevokeDrawsAFence(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice := newClient(t, opts, "alice", time.Hour)
	token := alice.lock(t, "k")
	const account = "00000000-0000-4000-8000-000000000001"
	params := lockstore.RevokeParams{Key: "k", Token: token, Operator: "erin", Reason: "stuck", FenceAccounts: []string{account}}
	raw := etcdtest.Single(t).Client(t)
	gate := opts.Prefix + "meta/gate"
	if _, err := raw.Put(t.Context(), gate, `{"closed_by":"frank","closed_reason":"restore"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Revoke(t.Context(), params); !isClosed(err) {
		t.Errorf("a fence behind a closed gate: %v, want grants closed", err)
	}
	if _, err := raw.Delete(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	outcome, err := alice.Revoke(t.Context(), params)
	if err != nil || outcome.Outcome != lockstore.Revoked || outcome.Fence <= token {
		t.Fatalf("revoked %+v, %v, want a fence above %s", outcome, err, token)
	}
	if next := alice.lock(t, "k"); next <= outcome.Fence {
		t.Errorf("the next grant has token %s, not above the fence %s", next, outcome.Fence)
	}
	log, err := alice.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: lockstore.ActionFenceAccount})
	if err != nil || len(log) != 1 || log[0].Token != outcome.Fence || log[0].Operator != "erin" || !strings.Contains(string(log[0].Details), account) {
		t.Errorf("the operator log: %+v, %v, want the fence %s", log, err, outcome.Fence)
	}
	params.FenceAccounts = []string{"nobody"}
	if _, err := alice.Revoke(t.Context(), params); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a fence for no account: %v, want ErrInvalid", err)
	}
}

func isClosed(err error) bool {
	var closed *lockstore.GrantsClosedError
	return errors.As(err, &closed)
}

// What is taken out of the audit, or rewritten in it, shows: each row of the audit alone.
//
// Clauses: K-3.6, K-10.1
// Mutation: compare nothing in verifyChain, or the journal with nothing.
func TestAuditShowsWhatWasRewritten(t *testing.T) {
	t.Parallel()
	raw := etcdtest.Single(t).Client(t)
	for name, c := range map[string]struct {
		rewrite func(prefix string) clientv3.Op
		want    []string
	}{
		"untouched":  {nil, nil},
		"a record":   {func(p string) clientv3.Op { return clientv3.OpDelete(p + "audit/0000000000000000002") }, []string{"chain_gap", "revocation_missing"}},
		"the last":   {func(p string) clientv3.Op { return clientv3.OpDelete(p + "audit/0000000000000000003") }, []string{"chain_gap", "revocation_missing"}},
		"the head":   {func(p string) clientv3.Op { return clientv3.OpDelete(p + "meta/audit") }, []string{"chain_broken"}},
		"the reason": {nil, []string{"chain_broken"}},
		"the journal": {
			func(p string) clientv3.Op { return clientv3.OpDelete(p+"grant/", clientv3.WithPrefix()) }, nil, // nothing is known of what it held
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t)
			alice := newClient(t, opts, "alice", time.Hour)
			for range 3 {
				if _, err := alice.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: alice.lock(t, "k"), Operator: "erin", Reason: "stuck"}); err != nil {
					t.Fatal(err)
				}
			}
			op := clientv3.Op{}
			switch {
			case name == "the reason":
				second := opts.Prefix + "audit/0000000000000000002"
				got, err := raw.Get(t.Context(), second)
				if err != nil || len(got.Kvs) != 1 {
					t.Fatalf("the second record: %+v, %v", got, err)
				}
				op = clientv3.OpPut(second, strings.Replace(string(got.Kvs[0].Value), "stuck", "asked", 1))
			case c.rewrite != nil:
				op = c.rewrite(opts.Prefix)
			}
			if name != "untouched" {
				if _, err := raw.Do(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
			report, err := alice.VerifyAudit(t.Context())
			var found []string
			for _, finding := range report.Findings {
				found = append(found, finding.ID)
			}
			if err != nil || !slices.Equal(found, c.want) {
				t.Errorf("findings %+v, %v, want %q", report.Findings, err, c.want)
			}
		})
	}
}

// The journal is pruned from its oldest grant on, as far as nothing stands, is claimed
// or is young; each part leaves its record, and the audit still verifies.
//
// Clauses: K-11, K-10.1
// Mutation: leave one reason out of keep, or drop the part in a dry run.
func TestPruneJournal(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice := newClient(t, opts, "alice", time.Hour)
	var tokens []lockstore.Token
	for range 4 {
		token := alice.lock(t, "k")
		alice.release(t, "k", token, false)
		tokens = append(tokens, token)
	}
	aged(t, opts, tokens[:3]...)
	prune := func(change func(*lockstore.JournalPruneParams)) lockstore.JournalPrune {
		t.Helper()
		params := lockstore.JournalPruneParams{OlderThan: 100 * time.Hour, Operator: "erin", Reason: "disk"}
		change(&params)
		pruned, err := alice.PruneJournal(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return pruned
	}
	holds := func(pruned lockstore.JournalPrune, grants int64, why string) {
		t.Helper()
		var dropped int64
		for _, part := range pruned.Dropped {
			dropped += part.Grants
		}
		if dropped != grants || pruned.Kept == nil || !strings.Contains(pruned.Why, why) {
			t.Errorf("pruned %+v, want %d grants, and the next kept since %q", pruned, grants, why)
		}
	}
	holds(prune(func(p *lockstore.JournalPruneParams) { p.DryRun = true }), 3, "is younger than")
	holds(prune(func(p *lockstore.JournalPruneParams) { p.OlderThan = 1000 * time.Hour }), 0, "is younger than")
	holds(prune(func(p *lockstore.JournalPruneParams) { p.Below = tokens[1] }), 1, "was claimed under token")
	holds(prune(func(*lockstore.JournalPruneParams) {}), 2, "is younger than")
	for i, token := range tokens {
		if _, err := alice.GrantHistory(t.Context(), token); errors.Is(err, lockstore.ErrNotFound) != (i < 3) {
			t.Errorf("token %d of 4: %v", i+1, err)
		}
	}
	log, err := alice.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: lockstore.ActionPruneJournal})
	if err != nil || len(log) != 2 || log[0].Operator != "erin" || log[0].Reason != "disk" {
		t.Errorf("the operator log: %+v, %v", log, err)
	}
	standing := alice.lock(t, "stands")
	later := alice.lock(t, "k")
	alice.release(t, "k", later, false)
	aged(t, opts, tokens[3], later)
	holds(prune(func(*lockstore.JournalPruneParams) {}), 1, "the grant with token "+standing.String())
	if report, err := alice.VerifyAudit(t.Context()); err != nil || len(report.Findings) != 0 {
		t.Errorf("the audit: %+v, %v", report, err)
	}
	if _, err := alice.PruneJournal(t.Context(), lockstore.JournalPruneParams{OlderThan: time.Hour, Operator: "erin", Reason: "disk"}); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a young journal: %v, want ErrInvalid", err)
	}
}

// aged has the grants end 200 hours ago.
func aged(t *testing.T, opts etcd.Options, tokens ...lockstore.Token) {
	t.Helper()
	raw := etcdtest.Single(t).Client(t)
	for _, token := range tokens {
		name := opts.Prefix + "grant/" + strings.Repeat("0", 19-len(token.String())) + token.String()
		got, err := raw.Get(t.Context(), name)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("the journal's %s: %+v, %v", name, got, err)
		}
		before, _, _ := strings.Cut(string(got.Kvs[0].Value), `"ended_at"`)
		old := before + `"ended_at":"` + time.Now().Add(-200*time.Hour).UTC().Format(time.RFC3339) + `","ended":"released"}`
		if _, err := raw.Put(t.Context(), name, old); err != nil {
			t.Fatal(err)
		}
	}
}

// Pulse counts grants once each, and how many wait; it tells the cluster's revision.
//
// Clauses: K-10.1
// Mutation: count the journal without what stands.
func TestPulse(t *testing.T) {
	t.Parallel()
	alice := newClient(t, options(t), "alice", time.Hour)
	first := alice.lock(t, "a")
	alice.release(t, "a", first, false)
	second := alice.lock(t, "b")
	for since, grants := range map[lockstore.Token]int{0: 2, first: 1, second: 0} {
		if pulse, err := alice.Pulse(t.Context(), since); err != nil || pulse.Grants != grants || pulse.Last < second {
			t.Errorf("since %s: %+v, %v, want %d grants", since, pulse, err, grants)
		}
	}
}
