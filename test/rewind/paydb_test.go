package rewind_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// A paydb that is restored to before a rail attempt shows the payout as if nothing
// had been paid. It is not let out a second time, however new the token: with the
// gate's guard out the rail counts two. Resolved by the rail's own record it goes on
// to the ledger, and the rail still counts one; a payout that the rail never saw is
// free; then the gate opens.
//
// Clauses: K-7.9, K-5.3, K-7.8
// Mutation: drop the check from payout_gate; note this timeline in pay_gate (the test does).
func TestPaydbRestoredToBeforeAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	lockdb := pgtest.Migrated(t, 16).Lock
	primary, archive := archived(t, "paydb", 16)
	base := primary.backup(t, 16)
	w.paydb = primary.dsn
	s := w.serve(t, lockdb.DSN)
	paid, unsent := s.holds(t, "paid", keepers), s.holds(t, "unsent", idles)
	s.takesUp(t, &paid)
	s.takesUp(t, &unsent)
	primary.restorePoint(t)
	s.goes(t, paid, posts)
	s.goes(t, unsent, submits)
	s.close()
	primary.stop(t, cluster.Immediate)

	without := base.restore(t, archive)
	place(without.dsn).exec(t, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`,
		`UPDATE pay_gate SET timeline_id = instance_timeline()`, `ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
	twice := &world{paydb: without.dsn, rail: w.rail.fork(), shown: maps.Clone(w.shown)}
	s = twice.serve(t, lockdb.DSN)
	s.releases(t, paid)
	second := s.holds(t, "second", keepers)
	second.payout, second.key = paid.payout, paid.key
	s.goes(t, second, posts)
	if got := twice.rail.count(paid.key); got != 2 {
		t.Errorf("without the gate the rail counts %d; want the damage, 2", got)
	}
	s.releases(t, second)
	s.close()

	restored := base.restore(t, archive)
	w.paydb = restored.dsn
	s = w.serve(t, lockdb.DSN)
	third := s.holds(t, "third", keepers)
	third.payout, third.key = paid.payout, paid.key
	s.notLetOut(t, third, unsent)
	if got := w.rail.count(paid.key); got != 1 {
		t.Errorf("the rail counts %d, want 1", got)
	}
	s.repaired(t, lockdb.DSN, third, unsent)
}

// notLetOut fails unless both doors of a restored paydb are shut to both payouts.
func (s *service) notLetOut(t *testing.T, holders ...holder) {
	t.Helper()
	for _, h := range holders {
		at, err := s.pay(t.Context(), h, posts)
		if _, shut := errors.AsType[*paystore.GateClosedError](err); at != claims || !shut {
			t.Errorf("%s, at the stage %q: %v; want the gate closed", h.name, at, err)
		}
	}
}

// repaired is the way of K-7.9: floors first, then the rail is asked about each; what
// it has paid walks the ordinary way without being sent, what it never saw is free.
func (s *service) repaired(t *testing.T, lockdb place, paid, unsent holder) {
	t.Helper()
	stores := s.stores(t, lockdb)
	repair := func() restore.PayRepair {
		t.Helper()
		repair, err := restore.RepairPaydb(t.Context(), stores, options())
		if err != nil {
			t.Fatal(err)
		}
		return repair
	}
	last := ask[lockstore.Token](t, lockdb, `SELECT last_value FROM fencing_token_seq`)
	if r := repair(); !r.Restored || r.Opened || r.Gate.Unresolved != 2 || r.To != last {
		t.Errorf("with two unresolved: %+v; the last token is %s", r, last)
	}
	// The floor stands at the last token: who goes on asks for the lock once more.
	paid, unsent = s.again(t, paid), s.again(t, unsent)
	r := resolver.New(s.resource, s.money, s.proxy, resolver.Options{Deadline: 100 * time.Millisecond, Operator: "erin", Reason: "paydb was restored"})
	for h, want := range map[holder]resolver.Fate{paid: resolver.Acked, unsent: resolver.Free} {
		if got, err := r.Settle(t.Context(), h.payout, h.presents()); err != nil || got.Fate != want {
			t.Errorf("%s is resolved: %+v, %v; want %s", h.name, got, err, want)
		}
	}
	if _, err := s.money.Post(t.Context(), paid.payout, paid.presents()); err != nil {
		t.Errorf("what the rail has paid is posted: %v", err)
	}
	s.goes(t, unsent, posts)
	for _, h := range []holder{paid, unsent} {
		state := ask[paystore.State](t, s.paydb, `SELECT state FROM payout WHERE payout_id = $1`, h.payout)
		if got := s.rail.count(h.key); got != 1 || state != paystore.Posted {
			t.Errorf("%s: the rail counts %d, the payout is %s; want 1 and POSTED", h.name, got, state)
		}
	}
	if r := repair(); !r.Opened || !r.Gate.Open() {
		t.Errorf("with none unresolved: %+v", r)
	}
	late := s.holds(t, "late", others)
	s.takesUp(t, &late)
	s.goes(t, late, posts)
	s.rail.once(t)
}

// again asks for the lock once more: a new token.
func (s *service) again(t *testing.T, h holder) holder {
	t.Helper()
	s.releases(t, h)
	next := s.holds(t, h.name, h.account)
	next.payout, next.key = h.payout, h.key
	return next
}
