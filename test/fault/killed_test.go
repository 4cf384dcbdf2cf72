//go:build unix

package fault_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// The proxy's process is killed with an attempt in flight: after the rail was asked,
// before it could tell; or between the attempt's COMMIT and the rail. Nobody forwards
// it again, and the rail's own record decides.
//
// Clauses: K-4.11, K-5.2, K-5.3
// Mutation: forward an attempt that take finds in flight.
func TestProxyIsKilledWithAnAttemptInFlight(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sent  bool
		asked paystore.Outcome // what the attempt is after the rail was asked
		said  paystore.Outcome
		state paystore.State
	}{
		"after the rail was asked": {true, paystore.OutcomeAcked, paystore.OutcomeAcked, paystore.Posted},
		"before anything was sent": {false, paystore.OutcomeTimeout, rail.NotFound, paystore.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 16)
			payoutID, key := w.payout(t)
			a := w.order("worker-a", payoutID, 5*lockstore.MinTTL)
			release := w.rail.holdAnswers()
			requests := 0
			if tc.sent {
				requests = 1
			} else {
				a.PauseBefore = stepSend
			}
			first := start(t, a)
			if tc.sent {
				pgtest.Eventually(t, "the rail is asked", func(context.Context) (bool, error) { return w.rail.requests(key) == 1, nil })
			} else {
				first.pauses(t)
			}
			first.kill(t)
			release()

			w.lapse(t)
			second := start(t, w.order("worker-b", payoutID, time.Minute)).rest(t)
			if r := second[stepRail]; r.Error != "" || r.Stands != "" {
				t.Errorf("the second submits: %+v; want the attempt, in flight", r)
			}
			if r := second[stepSettle]; r.Error == "" {
				t.Errorf("the second settles what is in flight: %+v", r)
			}
			w.finish(t, payoutID, paystore.Token(second[stepAcquire].Token), tc.asked, tc.said)
			if state := value[paystore.State](t, w.pay, `SELECT state FROM payout WHERE payout_id = $1`, payoutID); state != tc.state {
				t.Errorf("the payout is %s, want %s", state, tc.state)
			}
			if got := w.rail.requests(key); got != requests {
				t.Errorf("the rail received %d requests, want %d", got, requests)
			}
		})
	}
}

// finish asks the rail and goes on with what it says.
func (w world) finish(t *testing.T, payoutID string, token paystore.Token, asked, said paystore.Outcome) {
	t.Helper()
	attempts, err := openPay(t.Context(), w.dbs.Pay.DSN("t_rail"))
	if err != nil {
		t.Fatal(err)
	}
	defer attempts.Close()
	proxy := rail.New(attempts, railClient{url: w.rail.URL}, rail.Options{Timeout: time.Second})
	pgtest.Eventually(t, "the attempt is "+string(asked), func(ctx context.Context) (bool, error) {
		got, err := proxy.Ask(ctx, payoutID)
		return got.Outcome == asked && got.Said.Outcome == said, err
	})
	db, err := openPay(t.Context(), w.dbs.Pay.DSN("t_resource"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	money := posting.New(db, posting.Options{})
	if _, err := money.Settle(t.Context(), payoutID, token); err != nil {
		t.Fatal(err)
	}
	if asked == paystore.OutcomeAcked {
		if _, err := money.Post(t.Context(), payoutID, token); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, err = money.Resolve(t.Context(), posting.ResolveParams{
		PayoutID: payoutID, Token: token, Source: paystore.SourceRail, Verdict: paystore.VerdictNotFound,
		Evidence: json.RawMessage(`{"status": "NOT_FOUND"}`), Operator: "worker-b", Reason: "the rail has no record of it",
	})
	if err != nil {
		t.Fatal(err)
	}
}
