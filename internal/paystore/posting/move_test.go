package posting_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Every row of the table is what a verb does, to state and claim, and the same verb
// again is success; no verb does anything else.
//
// Clauses: K-5.1
// Mutation: take a row out of Transitions, or move to another state in Settle or Resolve.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		for _, tr := range paystore.Transitions() {
			token := b.token()
			var id string
			if tr.From == paystore.RailSubmitted && tr.Action != paystore.TakeOver {
				id = b.answered(t, tr, token)
			} else {
				id = b.at(t, payer, tr.From, token)
			}
			before := b.payout(t, id).Payout
			if tr.Action == paystore.Claim || tr.Action == paystore.TakeOver {
				token = b.token()
			}
			for range 2 {
				if err := b.do(t, tr, id, token); err != nil {
					t.Errorf("%s of %s: %v", tr.Action, tr.From, err)
				}
			}
			after := b.payout(t, id).Payout
			claim := map[paystore.ClaimChange]paystore.Token{
				paystore.ClaimKept: before.ClaimToken, paystore.ClaimSet: token, paystore.ClaimForgotten: 0,
			}[tr.Claim]
			if after.State != tr.To || after.ClaimToken != claim || (claim == 0) != (after.ClaimedBy == "") {
				t.Errorf("%s of %s: %+v, want %s with claim %s", tr.Action, tr.From, after, tr.To, claim)
			}
		}
		b.balanced(t)
	})
}

// answered is a payout before the rail whose attempt says what the arrow needs.
func (b bundle) answered(t *testing.T, tr paystore.Transition, token paystore.Token) string {
	t.Helper()
	id := b.at(t, payer, paystore.RailSubmitted, token)
	b.attempt(t, id, token, map[paystore.State]paystore.Outcome{
		paystore.RailAcked: paystore.OutcomeAcked, paystore.Failed: paystore.OutcomeRejected, paystore.RailAmbiguous: paystore.OutcomeTimeout,
	}[tr.To])
	return id
}

func (b bundle) do(t *testing.T, tr paystore.Transition, id string, token paystore.Token) error {
	t.Helper()
	ctx := t.Context()
	var err error
	switch tr.Action {
	case paystore.Claim, paystore.TakeOver:
		_, err = b.Claim(ctx, id, "heir", token)
	case paystore.Release:
		_, err = b.Release(ctx, id, token)
	case paystore.Submit:
		_, err = b.Submit(ctx, id, token)
	case paystore.Ack, paystore.Timeout:
		_, err = b.Settle(ctx, id, token)
	case paystore.Reject:
		if tr.From == paystore.RailSubmitted {
			_, err = b.Settle(ctx, id, token)
		} else {
			_, err = b.Reject(ctx, id, token)
		}
	case paystore.Post:
		_, err = b.Post(ctx, id, token)
	case paystore.Resolve, paystore.Abandon:
		verdict := map[paystore.State]paystore.Verdict{
			paystore.RailAcked: paystore.VerdictPaid, paystore.Failed: paystore.VerdictNotFound, paystore.Abandoned: paystore.VerdictUndetermined,
		}[tr.To]
		_, err = b.Resolve(ctx, resolution(id, token, verdict))
	case paystore.GiveUp:
		if tr.From == paystore.Pending {
			token = 0
		}
		_, err = b.GiveUp(ctx, id, token, "erin", "the client withdrew")
	}
	return err
}

// A payout leaves the rail as its attempt says, and by nothing else: neither guessed
// while the attempt is in flight, nor without one.
//
// Clauses: K-5.1, K-5.3
// Mutation: let Settle take no answer for TIMEOUT, or leave payout_rail_guard out of refusal.
func TestSettleGuessesNothing(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		for _, inFlight := range []bool{false, true} {
			token := b.token()
			id := b.at(t, payer, paystore.RailSubmitted, token)
			if inFlight {
				b.attempt(t, id, token, "")
			}
			_, err := b.Settle(ctx, id, token)
			evidence, ok := errors.AsType[*paystore.EvidenceError](err)
			if !ok || evidence.Message == "" || evidence.Hint == "" {
				t.Errorf("in flight %t: %v", inFlight, err)
			}
			if inFlight {
				// Whoever says REJECTED by himself is held by paydb's guard.
				if _, err := b.Reject(ctx, id, token); !is[*paystore.EvidenceError](err) {
					t.Errorf("reject in flight: %v", err)
				}
			}
			if p := b.payout(t, id); p.State != paystore.RailSubmitted || p.AttemptCount != 1 {
				t.Errorf("in flight %t: %s, %d attempts", inFlight, p.State, p.AttemptCount)
			}
		}
		acked := b.at(t, payer, paystore.RailSubmitted, b.token())
		b.attempt(t, acked, paystore.Token(b.last.Load()), paystore.OutcomeAcked)
		if _, err := b.Reject(ctx, acked, paystore.Token(b.last.Load())); !is[*paystore.EvidenceError](err) {
			t.Errorf("reject of what the rail acknowledged: %v", err)
		}
	})
}

// Before the rail is asked, the account is looked at: funds, fence, claim and state.
//
// Clauses: K-4.9, K-4.2
// Mutation: drop a case of CheckFunds or of rejected.
func TestCheckFunds(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		for amount, enough := range map[paystore.Minor]bool{250_000: true, 250_001: false, 1<<63 - 1: false} {
			token := b.token()
			id := b.create(t, other, amount)
			b.bring(t, id, paystore.Claimed, token)
			err := b.CheckFunds(ctx, id, token)
			rejected, _ := errors.AsType[*paystore.RejectedError](err)
			if (err == nil) != enough || !enough && (rejected == nil || rejected.Reason != paystore.ReasonInsufficientFunds || rejected.BalanceMinor != 250_000) {
				t.Errorf("%s of 250000: %v", amount, err)
			}
			if enough {
				continue
			}
			p, err := b.Reject(ctx, id, token)
			if err != nil || p.State != paystore.Failed || p.ClaimToken != token {
				t.Errorf("reject before the rail: %+v, %v", p, err)
			}
			if _, err := b.Submit(ctx, id, token); !is[*paystore.StateError](err) {
				t.Errorf("submit of what was rejected: %v", err)
			}
		}
		token := b.token()
		id := b.at(t, payer, paystore.Claimed, token)
		if _, _, err := b.RaiseFence(ctx, payer, token, "erin", "revoked"); err != nil {
			t.Fatal(err)
		}
		fencedBy(t, "a fence at the token", b.CheckFunds(ctx, id, token), paystore.ResourceAccount, token, token)
		later := b.at(t, payer, paystore.RailSubmitted, b.token())
		if err := b.CheckFunds(ctx, later, paystore.Token(b.last.Load())); !is[*paystore.StateError](err) {
			t.Errorf("after the rail: %v", err)
		}
		if err := b.CheckFunds(ctx, nobody, 1); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// Own work that has no such arrow is refused with the state that stands, and changes
// nothing.
//
// Clauses: K-5.1
// Mutation: leave the state out of queries/move.sql or submit.sql.
func TestNoSuchArrow(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	ctx := t.Context()
	verbs := map[string]struct {
		do   func(id string, token paystore.Token) error
		from []paystore.State // where it is no error
	}{
		"submit": {
			func(id string, token paystore.Token) error { _, err := b.Submit(ctx, id, token); return err },
			[]paystore.State{paystore.Claimed, paystore.RailSubmitted},
		},
		"settle": {
			func(id string, token paystore.Token) error { _, err := b.Settle(ctx, id, token); return err },
			[]paystore.State{paystore.RailSubmitted, paystore.RailAcked, paystore.RailAmbiguous},
		},
		"reject": {
			func(id string, token paystore.Token) error { _, err := b.Reject(ctx, id, token); return err },
			[]paystore.State{paystore.Claimed, paystore.RailSubmitted, paystore.RailAcked, paystore.Failed},
		},
		"give up": {
			func(id string, token paystore.Token) error {
				_, err := b.GiveUp(ctx, id, token, "erin", "no")
				return err
			},
			[]paystore.State{paystore.Claimed, paystore.Failed},
		},
		"resolve": {func(id string, token paystore.Token) error {
			_, err := b.Resolve(ctx, resolution(id, token, paystore.VerdictUndetermined))
			return err
		}, []paystore.State{paystore.RailAmbiguous, paystore.Abandoned}},
	}
	for name, verb := range verbs {
		for _, state := range paystore.States() {
			token := b.token()
			id := b.at(t, payer, state, token)
			if state == paystore.RailSubmitted && name == "settle" {
				continue // it has no answer yet: TestSettleGuessesNothing
			}
			before := b.payout(t, id)
			err := verb.do(id, token)
			allowed := false
			for _, s := range verb.from {
				allowed = allowed || s == state
			}
			wrong, refused := errors.AsType[*paystore.StateError](err)
			switch {
			case allowed && err != nil:
				t.Errorf("%s of %s: %v", name, state, err)
			case !allowed && (!refused || wrong.Have != state):
				t.Errorf("%s of %s: %v, want a StateError", name, state, err)
			case !allowed:
				if diff := cmp.Diff(before, b.payout(t, id)); diff != "" {
					t.Errorf("%s of %s changed it:\n%s", name, state, diff)
				}
			}
			if err := verb.do(nobody, token); !errors.Is(err, paystore.ErrNotFound) {
				t.Errorf("%s of nothing: %v", name, err)
			}
		}
	}
}
