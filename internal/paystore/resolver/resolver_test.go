package resolver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
)

// A payout that the rail paid and a restored paydb shows as PENDING goes to no rail
// again: the gate refuses its claim, the resolver takes the payment down without
// forwarding anything, and then it is posted. Without the gate's check the second
// payment reaches the rail.
//
// Clauses: K-7.9, K-5.3
// Mutation: let Adopt call p.rail.Submit, take Attest out of Settle, or, as the control does, the gate's triggers.
func TestRestoredPaydbPaysNothingTwice(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, w *world) {
		id, control := w.create(t, account), w.create(t, another)
		w.rail.requests = 2 // both were paid before the restore
		w.knows(t, id, acked())
		w.knows(t, control, acked())
		w.restored(t)
		if _, err := w.posting.Claim(t.Context(), id, "worker", w.token()); !is[*paystore.GateClosedError](err) {
			t.Fatalf("claim: %v", err)
		}
		token := w.token()
		result, err := w.resolver().Settle(t.Context(), id, token)
		if err != nil || result.Fate != resolver.Acked || result.From != paystore.Pending || result.State != paystore.RailAcked || result.Said.Reference != "R-981" {
			t.Fatalf("settle: %+v, %v", result, err)
		}
		if _, err := w.posting.Post(t.Context(), id, token); err != nil {
			t.Fatal(err)
		}
		p := w.payout(t, id)
		if p.State != paystore.Posted || len(p.Attempts) != 1 || p.Attempts[0].Outcome != paystore.OutcomeAcked || p.Attempts[0].RailReference != "R-981" || p.Attempts[0].PresentedToken != token {
			t.Errorf("posted: %+v", p)
		}
		if len(p.Resolutions) != 1 || p.Resolutions[0].Source != paystore.SourceRail || p.Resolutions[0].Verdict != paystore.VerdictPaid ||
			p.Resolutions[0].Operator != "erin" || !strings.Contains(string(p.Resolutions[0].Evidence), "R-981") {
			t.Errorf("evidence: %+v", p.Resolutions)
		}
		if n := w.rail.payments(); n != 2 {
			t.Errorf("the rail was asked to pay %d times, want 2", n)
		}
		// The control: the same worker, without the gate.
		w.exec(t, `ALTER TABLE payout DISABLE TRIGGER payout_gate`)
		w.exec(t, `ALTER TABLE rail_submission DISABLE TRIGGER rail_submission_gate`)
		token = w.token()
		for _, step := range []func() error{
			func() error { _, err := w.posting.Claim(t.Context(), control, "worker", token); return err },
			func() error { _, err := w.posting.Submit(t.Context(), control, token); return err },
			func() error { _, err := w.proxy.Submit(t.Context(), control, token); return err },
		} {
			if err := step(); err != nil {
				t.Fatalf("the control: %v", err)
			}
		}
		if n := w.rail.payments(); n != 3 {
			t.Errorf("without the gate the rail was asked %d times, want the second payment, 3", n)
		}
	})
}

// Every state that is not final, every attempt and every answer lead where the table
// of the package says, in a restored paydb as in any other; nothing is forwarded, and
// run twice it does nothing twice.
//
// Clauses: K-5.2, K-5.3, K-7.9, K-4.11
// Mutation: return Free for a payout whose attempt is TIMEOUT, or drop a case of walk.
func TestFates(t *testing.T) {
	t.Parallel()
	said := map[string]rail.Answer{
		"ACKED": acked(), "REJECTED": {Outcome: paystore.OutcomeRejected, Reference: "R-0", Text: "closed"}, "NOT_FOUND": {Outcome: rail.NotFound}, "PENDING": {Text: "tomorrow"},
	}
	tests := []struct {
		state              paystore.State
		attempt            string
		acked, no, unknown string // fate and state after ACKED, REJECTED, NOT_FOUND
	}{
		{paystore.Pending, "none", "acked RAIL_ACKED", "failed FAILED", "free PENDING"},
		{paystore.Claimed, "none", "acked RAIL_ACKED", "failed FAILED", "free CLAIMED"},
		{paystore.RailSubmitted, "none", "acked RAIL_ACKED", "failed FAILED", "free RAIL_SUBMITTED"},
		{paystore.RailSubmitted, "TIMEOUT", "acked RAIL_ACKED", "failed FAILED", "failed FAILED"},
		{paystore.RailSubmitted, "", "acked RAIL_ACKED", "failed FAILED", "failed FAILED"},
		{paystore.RailSubmitted, "ACKED", "acked RAIL_ACKED", "contradicted RAIL_SUBMITTED", "contradicted RAIL_SUBMITTED"},
		{paystore.RailSubmitted, "REJECTED", "contradicted RAIL_SUBMITTED", "failed FAILED", "contradicted RAIL_SUBMITTED"},
		{paystore.RailAmbiguous, "TIMEOUT", "acked RAIL_ACKED", "failed FAILED", "failed FAILED"},
		{paystore.RailAmbiguous, "none", "acked RAIL_ACKED", "failed FAILED", "failed FAILED"},
		{paystore.RailAcked, "ACKED", "acked RAIL_ACKED", "contradicted RAIL_ACKED", "contradicted RAIL_ACKED"},
	}
	eachMajor(t, func(t *testing.T, w *world) {
		// A payment that the rail knows, so that it is the right one.
		w.rail.record[w.payout(t, w.at(t, paystore.RailSubmitted, "ACKED")).IdempotencyKey] = acked()
		for _, restored := range []bool{false, true} {
			if restored {
				w.restored(t)
			}
			for _, tt := range tests {
				for answer, want := range map[string]string{"ACKED": tt.acked, "REJECTED": tt.no, "NOT_FOUND": tt.unknown, "PENDING": "unknown " + string(tt.state)} {
					what := fmt.Sprintf("%s with attempt %q, the rail says %s, restored %t", tt.state, tt.attempt, answer, restored)
					id := w.born(t, restored, tt.state, tt.attempt)
					w.knows(t, id, said[answer])
					for range 2 {
						result, err := w.resolver().Settle(t.Context(), id, w.token())
						if is[*paystore.StateError](err) { // it was finished before
							result.Fate = resolver.Failed
						} else if err != nil {
							t.Fatalf("%s: %v", what, err)
						}
						if got := fmt.Sprintf("%s %s", result.Fate, w.payout(t, id).State); got != want {
							t.Errorf("%s: %s (%s), want %s", what, got, result.Why, want)
						}
					}
					if n := len(w.payout(t, id).Resolutions); n != 1 {
						t.Errorf("%s: %d resolutions", what, n)
					}
				}
			}
		}
		if n := w.rail.payments(); n != 0 {
			t.Errorf("the rail was asked to pay %d times", n)
		}
	})
}

// born is at, before a restore where there was one: the gate lets no state come about.
func (w *world) born(t *testing.T, restored bool, state paystore.State, attempt string) string {
	t.Helper()
	if !restored {
		return w.at(t, state, attempt)
	}
	w.exec(t, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`)
	w.exec(t, `UPDATE pay_gate SET timeline_id = instance_timeline()`)
	id := w.at(t, state, attempt)
	w.restored(t)
	return id
}

// A payment on record is never forwarded again, though an executor claims the freed
// payout before the resolver goes on; and the resolver finds it again.
//
// Clauses: K-7.9
// Mutation: drop the paid case of (*reservation).take, or the verdict from queries/unsettled.sql.
func TestDeadResolverLeavesNoSecondPayment(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, w *world) {
		id := w.create(t, account)
		w.knows(t, id, acked())
		w.restored(t)
		// The resolver dies between the evidence and the claim.
		_, err := w.posting.Attest(t.Context(), posting.ResolveParams{
			PayoutID: id, Token: w.token(), Source: paystore.SourceRail, Verdict: paystore.VerdictPaid, Evidence: []byte(`{"rail": "R-981"}`), Operator: "erin", Reason: "r",
		})
		if err != nil {
			t.Fatal(err)
		}
		token := w.token()
		if _, err := w.posting.Claim(t.Context(), id, "worker", token); err != nil {
			t.Fatalf("the gate lets a resolved payout through: %v", err)
		}
		if _, err := w.posting.Submit(t.Context(), id, token); err != nil {
			t.Fatal(err)
		}
		if _, err := w.proxy.Submit(t.Context(), id, token); !is[*paystore.EvidenceError](err) || w.rail.payments() != 0 {
			t.Errorf("submit: %v, %d payments", err, w.rail.payments())
		}
		page, err := w.posting.Unsettled(t.Context(), soon, nil, posting.MostListed)
		left := page.Payouts
		if err != nil || len(left) != 1 || left[0].PayoutID != id || left[0].HeldBack {
			t.Errorf("unsettled: %+v, %v", left, err)
		}
		if result, err := w.resolver().Settle(t.Context(), id, w.token()); err != nil || result.State != paystore.RailAcked {
			t.Errorf("settle: %+v, %v", result, err)
		}
	})
}

// What a rail does not know counts for nothing when it does not know what it has
// acknowledged either: the address of a test rail would free every payout.
//
// Mutation: take prove out of Settle.
func TestWrongRailFreesNothing(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, w *world) {
		witness, id := w.at(t, paystore.RailSubmitted, "ACKED"), w.create(t, another)
		w.restored(t)
		r := w.resolver()
		_, err := r.Settle(t.Context(), id, w.token())
		if wrong, ok := errors.AsType[*resolver.WrongRailError](err); !ok || wrong.PayoutID != witness || len(w.payout(t, id).Resolutions) != 0 {
			t.Fatalf("a rail without the witness: %v", err)
		}
		w.knows(t, witness, acked())
		if result, err := r.Settle(t.Context(), id, w.token()); err != nil || result.Fate != resolver.Free {
			t.Errorf("the right rail: %+v, %v", result, err)
		}
	})
}

// A payment that paydb has forgotten may arrive at the rail after it was asked: the
// resolver waits out the forwarding deadline, and asks again, before it frees a payout.
//
// Clauses: K-4.11, K-7.9
// Mutation: return the first answer in ask.
func TestForgottenRequestArrivesLate(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, w *world) {
		id := w.create(t, account)
		key := w.payout(t, id).IdempotencyKey
		w.restored(t)
		late := &lateRail{recordingRail: w.rail, key: key}
		proxy := rail.New(open(t, w.dbs.Pay.Config(t, "t_rail")), late, rail.Options{})
		defer proxy.Close()
		began := time.Now()
		r := resolver.New(w.db, w.posting, proxy, resolver.Options{Deadline: soon, Operator: "erin", Reason: "r"})
		result, err := r.Settle(t.Context(), id, w.token())
		if err != nil || result.Fate != resolver.Acked {
			t.Errorf("%+v, %v", result, err)
		}
		if time.Since(began) < soon {
			t.Error("it did not wait")
		}
	})
}

// An answer about another payment is no evidence, nor is an error; nothing is kept of
// either, and the payout stays held back.
//
// Mutation: return nil from (payout).matches.
func TestNoEvidence(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, w *world) {
		id := w.create(t, account)
		w.restored(t)
		other := acked()
		other.AmountMinor, other.Currency = 101, "EUR"
		w.knows(t, id, other)
		if _, err := w.resolver().Settle(t.Context(), id, w.token()); !is[*paystore.EvidenceError](err) || !strings.Contains(err.Error(), "101") {
			t.Errorf("another amount: %v", err)
		}
		w.rail.down = errors.New("no route to host")
		if _, err := w.resolver().Settle(t.Context(), id, w.token()); !errors.Is(err, w.rail.down) {
			t.Errorf("the rail is down: %v", err)
		}
		if p := w.payout(t, id); len(p.Resolutions) != 0 || p.State != paystore.Pending {
			t.Errorf("%+v", p)
		}
	})
}

// The statement is one that PostgreSQL accepts, and the witness is the last one.
func TestWitness(t *testing.T) {
	t.Parallel()
	w := setup(t, 16)
	w.at(t, paystore.RailSubmitted, "ACKED")
	last := w.at(t, paystore.RailSubmitted, "ACKED")
	w.at(t, paystore.RailSubmitted, "TIMEOUT")
	var got string
	if err := w.dbs.Pay.Conn(t, "t_resource").QueryRow(t.Context(), resolver.WitnessQuery, w.create(t, another)).Scan(&got); err != nil || got != last {
		t.Errorf("%s, %v, want %s", got, err, last)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
