package rail_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// A payment that the rail has made and paydb has forgotten is taken down: mark,
// attempt and answer, and no second request. The same call again changes nothing.
//
// Clauses: K-7.9, K-5.3, K-4.11
// Mutation: call p.rail.Submit in Adopt: two requests; or leave answerQuery out of adopt.
func TestAdoptForwardsNothing(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		for want, said := range map[string]rail.Answer{
			"5 ACKED R-981": {Outcome: paystore.OutcomeAcked, Reference: "R-981", Text: "booked\x00"}, "6 REJECTED": {Outcome: paystore.OutcomeRejected},
		} {
			token, accountID := paystore.Token(want[0]-'0'), account
			if token == 6 {
				accountID = another
			}
			id := b.payout(t, accountID, token)
			if _, err := b.rail.Submit(t.Context(), rail.Request{Key: "key-" + id}); err != nil { // before paydb was restored
				t.Fatal(err)
			}
			before := b.rail.calls()
			b.rail.answerStatus(said, nil)
			got, err := p.Adopt(t.Context(), strings.ToUpper(id), token)
			if err != nil || got.Repeated || got.Outcome != said.Outcome || got.ResolvedAt.IsZero() || got.IdempotencyKey != "key-"+id {
				t.Errorf("adopt: %+v, %v", got, err)
			}
			again, err := p.Adopt(t.Context(), id, token)
			if diff := cmp.Diff(got.Attempt, again.Attempt); err != nil || diff != "" || !again.Repeated {
				t.Errorf("again: %v (-first +again):\n%s", err, diff)
			}
			if lines := b.attempts(t, id); len(lines) != 1 || lines[0] != want {
				t.Errorf("attempts %q, want %q", lines, want)
			}
			if b.rail.calls() != before || b.mark(t, accountID) != token {
				t.Errorf("%d requests, want %d; mark %s", b.rail.calls(), before, b.mark(t, accountID))
			}
		}
	})
}

// What is not for the rail, not the token's, or not in the rail's record is not
// adopted, and leaves neither mark nor attempt.
//
// Clauses: K-7.9, K-4.1, K-5.2
// Mutation: drop the check of said.final, or write the mark in a transaction of its own.
func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		pending, id := b.claimed(t, another, 4), b.payout(t, account, 5)
		for what, said := range map[string]rail.Answer{"not found": {Outcome: rail.NotFound}, "undecided": {Text: "tomorrow"}} {
			b.rail.answerStatus(said, nil)
			if _, err := p.Adopt(t.Context(), id, 5); !isEvidence(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		other := rail.Answer{Outcome: paystore.OutcomeAcked, AmountMinor: 4712, Currency: "EUR"}
		b.rail.answerStatus(other, nil)
		if _, err := p.Adopt(t.Context(), id, 5); !isEvidence(err) || !strings.Contains(err.Error(), "4712") {
			t.Errorf("another amount: %v", err)
		}
		down := errors.New("no route to host")
		b.rail.answerStatus(rail.Answer{}, down)
		if _, err := p.Adopt(t.Context(), id, 5); !errors.Is(err, down) {
			t.Errorf("the rail is down: %v", err)
		}
		b.rail.answerStatus(rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "R"}, nil)
		if _, err := p.Adopt(t.Context(), pending, 4); !isState(err) {
			t.Errorf("CLAIMED: %v", err)
		}
		if _, err := p.Adopt(t.Context(), id, 6); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("a token that never claimed it: %v", err)
		}
		if _, err := p.Adopt(t.Context(), "x", 5); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("no id: %v", err)
		}
		if _, err := p.Adopt(t.Context(), id, 0); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("no token: %v", err)
		}
		if _, err := p.Lookup(t.Context(), "00000000-0000-4000-8000-00000000dead"); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("no payout: %v", err)
		}
		if b.mark(t, account) != 0 || len(b.attempts(t, id)) != 0 || b.rail.calls() != 0 {
			t.Errorf("mark %s, attempts %v, %d requests", b.mark(t, account), b.attempts(t, id), b.rail.calls())
		}
		b.exec(t, `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, 9)`, account)
		if _, err := p.Adopt(t.Context(), id, 5); !fencedBy(err, paystore.ResourceRail, 5, 9) {
			t.Errorf("below the mark: %v", err)
		}
	})
}

// COMMIT's answer lost: the same call again finds what stands.
//
// Clauses: K-7.9
// Mutation: insert under a fresh id without looking for the standing attempt.
func TestAdoptAfterALostCommit(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				b.rail.answerStatus(rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "R"}, nil)
				id := b.payout(t, account, 5)
				p := b.through(t, &network{after: after}, rail.Options{})
				if _, err := p.Adopt(t.Context(), id, 5); !isUnknown(err) {
					t.Fatalf("cut: %v", err)
				}
				if got, err := p.Adopt(t.Context(), id, 5); err != nil || got.Outcome != paystore.OutcomeAcked || got.Repeated != after {
					t.Errorf("again: %+v, %v", got, err)
				}
				if lines := b.attempts(t, id); len(lines) != 1 || b.rail.calls() != 0 {
					t.Errorf("%v, %d requests", lines, b.rail.calls())
				}
			})
		})
	}
}

// Mutation: leave a column out of queries/rights.sql.
func TestWritable(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for login, want := range map[string]bool{"t_rail": true, "t_resource": false, "t_operator": false, "super": true} {
		p := b.proxyThrough(t, b.dbs.Pay.Config(t, login), rail.Options{})
		if got, err := p.Writable(t.Context()); err != nil || got != want {
			t.Errorf("%s: %t, %v", login, got, err)
		}
	}
}

func isEvidence(err error) bool {
	_, ok := errors.AsType[*paystore.EvidenceError](err)
	return ok
}

func isState(err error) bool {
	_, ok := errors.AsType[*paystore.StateError](err)
	return ok
}

// An answer to a payment that is about another one acknowledges nothing: the outcome
// is unknown, and a person is told to look.
//
// Clauses: K-4.10, K-5.3
// Mutation: take matches out of attend.
func TestAnswerAboutAnotherAmountAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.rail.submit = func(context.Context, rail.Request) (rail.Answer, error) {
		return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "R", AmountMinor: 4712, Currency: "EUR"}, nil
	}
	p := b.proxy(t, rail.Options{Timeout: patience})
	got, err := p.Submit(t.Context(), b.payout(t, account, 5), 5)
	if err != nil || got.Outcome != paystore.OutcomeTimeout || !strings.Contains(got.Trouble, "4712") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A payout that is not there is an answer of paydb's: whoever takes it for an outage
// asks again for ever.
//
// Mutation: return ErrNotFound from within the scan of Proxy.payout.
func TestUnknownPayoutIsNoOutage(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		const id = "00000000-0000-4000-8000-00000000dead"
		_, looked := p.Lookup(t.Context(), id)
		_, asked := p.Ask(t.Context(), id)
		_, adopted := p.Adopt(t.Context(), id, 5)
		for what, err := range map[string]error{"look it up": looked, "ask": asked, "adopt": adopted} {
			_, outage := errors.AsType[*paystore.UnreachableError](err)
			if !errors.Is(err, paystore.ErrNotFound) || outage {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
