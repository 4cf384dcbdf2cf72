package restore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

const anyAccount = `(SELECT account_id FROM account EXCEPT SELECT account_id FROM clearing_account LIMIT 1)`

// A restored paydb: its floors go to lockdb's last token at once, its gate opens
// when the last payout that came back is resolved, and not before; run again it
// changes nothing.
//
// Clauses: K-7.9, K-7.8
// Mutation: drop the count from (*Keeper).OpenGate, or the floors from RepairPaydb.
func TestRestoredPaydb(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s := w.stores(t, how{})
		last := hold(t, w.grantor(t), "a").Token
		exec(t, w.pay, `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
			SELECT '40000000-0000-4000-8000-000000000004', account_id, 100, currency, 'k1' FROM account WHERE account_id = `+anyAccount)
		exec(t, w.pay, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`)
		exec(t, w.pay, `UPDATE pay_gate SET timeline_id = timeline_id + 1`)
		exec(t, w.pay, `ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
		if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || !sign(plan, "paydb_restored") || plan.Pay.Unresolved != 1 {
			t.Fatalf("plan: %+v, %v", plan.Signs, err)
		}
		for range 2 {
			repair, err := restore.RepairPaydb(t.Context(), s, options())
			if err != nil || !repair.Restored || repair.Opened || repair.Gate.Unresolved != 1 || repair.To != last || len(repair.Next) != 1 {
				t.Fatalf("with one unresolved: %+v, %v", repair, err)
			}
		}
		if got := one[int64](t, w.pay, `SELECT min(floor_token) FROM fence_floor`); got != int64(last) {
			t.Errorf("the lower floor is %d, lockdb issued %d last", got, last)
		}
		exec(t, w.pay, `INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES ('40000000-0000-4000-8000-000000000004', 'rail', 'NOT_FOUND', '{"a": 1}', 'erin', 'r')`)
		if repair, err := restore.RepairPaydb(t.Context(), s, options()); err != nil || !repair.Opened || !repair.Gate.Open() {
			t.Errorf("resolved: %+v, %v", repair, err)
		}
		if repair, err := restore.RepairPaydb(t.Context(), s, options()); err != nil || repair.Restored || repair.Opened {
			t.Errorf("again: %+v, %v", repair, err)
		}
		// Closed by hand, for a plain copy: what was resolved before counts no more.
		exec(t, w.pay, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'a plain copy'`)
		if repair, err := restore.RepairPaydb(t.Context(), s, options()); err != nil || repair.Opened || repair.Gate.Unresolved != 1 {
			t.Errorf("a plain copy: %+v, %v", repair, err)
		}
		w.rewound(t, 1)
		if _, err := restore.RepairPaydb(t.Context(), s, options()); !errors.Is(err, restore.ErrLockdbFirst) {
			t.Errorf("lockdb set back too: %v", err)
		}
	})
}

// Lockdb as a plain copy of its files keeps identifier, timeline and gate: only a token
// that paydb or the outside mark knows tells that its last one is no floor. Nothing is
// raised and nothing opened. A forged token that no fast-forward passes does not count.
//
// Clauses: K-7.9, K-7.6
// Mutation: drop the loop, or the mark, from lastOfSafe.
func TestRestoredPaydbWaitsForACopiedLockdb(t *testing.T) {
	t.Parallel()
	for what, ahead := range map[string]func(*testing.T, *world, int64){
		"paydb": func(t *testing.T, w *world, token int64) { w.observed(t, token) },
		"the outside mark": func(t *testing.T, w *world, token int64) {
			if _, err := w.mark.Reach(t.Context(), lockstore.Token(token)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 16)
			s := w.stores(t, how{})
			last := int64(hold(t, w.grantor(t), "a").Token)
			exec(t, w.pay, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'a plain copy'`)
			ahead(t, w, last+1)
			if _, err := restore.RepairPaydb(t.Context(), s, options()); !errors.Is(err, restore.ErrLockdbFirst) {
				t.Errorf("one token is forgotten: %v", err)
			}
			if got := one[int64](t, w.pay, `SELECT max(floor_token) FROM fence_floor`); got != 0 {
				t.Errorf("a floor was raised to %d", got)
			}
			hold(t, w.grantor(t), "b")
			w.observed(t, 1<<53)
			if repair, err := restore.RepairPaydb(t.Context(), s, options()); err != nil || !repair.Opened {
				t.Errorf("caught up: %+v, %v", repair, err)
			}
		})
	}
}

// An account with a payout between claim and end is shown, with its claim: a holder
// from before may come for it.
func TestPlanShowsUnfinishedPayouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	exec(t, w.pay, `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
		SELECT '40000000-0000-4000-8000-000000000004', account_id, 100, currency, 'k1' FROM account WHERE account_id = `+anyAccount)
	exec(t, w.pay, `UPDATE payout SET state = 'CLAIMED', claimed_by = 'alice', claim_token = 77`)
	plan, err := restore.Prepare(t.Context(), w.stores(t, how{}), options())
	if err != nil || plan.AccountsTotal != 1 || len(plan.Accounts) != 1 || plan.Accounts[0].HighestClaim != 77 || plan.Accounts[0].States != "CLAIMED" || plan.ObservedIn != "payout.claim_token" {
		t.Errorf("%d accounts %+v, observed in %s, %v", plan.AccountsTotal, plan.Accounts, plan.ObservedIn, err)
	}
}

// A fast-forward without paydb says so and raises the floors as soon as it is back;
// only then is there nothing left to do. Meanwhile a holder from before is refused
// by no floor; afterwards by both.
//
// Clauses: K-7.8
// Mutation: drop the floors from isSafe, or the barrier steps.
func TestFloorsAreRaisedWhenPaydbIsBack(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		w.rewound(t, 10)
		opts := options()
		opts.AcceptMissing = []string{"paydb"}
		without := forward(t, w.stores(t, how{noPay: true}), opts)
		if without.Outcome != restore.Advanced || len(without.Floors) != 0 || !strings.Contains(strings.Join(without.Next, " "), "paydb was out of reach") {
			t.Fatalf("without paydb: %+v", without)
		}
		raise := func(token lockstore.Token) int64 {
			tag, err := w.pay.Exec(t.Context(), `UPDATE account SET fence = $1 WHERE account_id = `+anyAccount, int64(token))
			if err != nil {
				t.Fatal(err)
			}
			return tag.RowsAffected()
		}
		if rows := raise(20); rows != 1 {
			t.Errorf("without a floor: %d rows", rows)
		}
		s := w.stores(t, how{})
		back := forward(t, s, options())
		if back.Outcome != restore.Advanced || back.Floors[0].To != back.Floors[1].To {
			t.Fatalf("paydb is back: %+v", back)
		}
		if rows := raise(back.To); rows != 0 {
			t.Errorf("a token at the target: %d rows", rows)
		}
		if rows := raise(back.To + 1); rows != 1 {
			t.Errorf("a token above the target: %d rows", rows)
		}
	})
}

// A posting that read the old floor ends before the gate opens: the barrier waits
// for it.
//
// Clauses: K-7.8
// Mutation: leave StepBarrierAccount or StepBarrierRail out of (*run).steps.
func TestBarrierWaitsForPostings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	for i, table := range []string{"account", "rail_high_water"} {
		w.observed(t, int64(i+1)<<40)
		holder, _ := openTransaction(t, w.dbs.Pay.Conn(t, "super"), `LOCK TABLE `+table+` IN ROW EXCLUSIVE MODE`)
		result := forward(t, w.stores(t, how{timeout: time.Second}), options())
		if result.Outcome != restore.LockTimeout || result.GateOpen {
			t.Errorf("%s: %s, open %v", table, result.Outcome, result.GateOpen)
		}
		exec(t, holder, "ROLLBACK")
		if result := forward(t, w.stores(t, how{}), options()); result.Outcome != restore.Advanced || !result.GateOpen {
			t.Errorf("%s: the rerun: %+v", table, result)
		}
	}
}
