package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/executor"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
)

func paymentsOf(t *testing.T, sim *httpdtest.Service) map[string]railsim.Payment {
	t.Helper()
	var list railsim.PaymentList
	a := sim.Do(t, "GET", railsim.PathSimPayments+"?limit=1000", "", "")
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != 200 {
		t.Fatalf("list what reached the rail: %d %s, %v", a.Status, a.Body, err)
	}
	payments := map[string]railsim.Payment{}
	for _, p := range list.Payments {
		payments[p.IdempotencyKey] = p
	}
	return payments
}

// Two executors side by side pay everything once, whoever takes it: a token for each
// payout, what cannot be paid FAILED before the rail is asked.
//
// Clauses: K-4.2, K-4.9, K-5.2
// Mutation: do not re-enter before the next payout in visit, or leave CheckFunds out of submit.
func TestPaysOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	for n := range 30 {
		w.create(t, account(1+n%3), int64(100+n))
	}
	w.create(t, account(6), 100) // it has nothing
	a, b := w.start(t, "a", nil), w.start(t, "b", nil)
	w.until(t, "FAILED 1, POSTED 30")
	w.once(t)
	// An outcome is counted after the answer that brought it.
	posted := func(context.Context) (bool, error) { return a.count(t, "posted")+b.count(t, "posted") >= 30, nil }
	pgtest.Eventually(t, "30 are counted as posted", posted)
	if n := a.count(t, "posted") + b.count(t, "posted"); n != 30 {
		t.Errorf("%d counted as posted, want 30", n)
	}
	if n := a.count(t, "fenced") + b.count(t, "fenced") + a.count(t, "broken") + b.count(t, "broken"); n > 0 {
		t.Errorf("%d fenced or broken where nothing went wrong", n)
	}
	for _, c := range a.Ready(t.Context()) {
		if c.State != httpd.Good {
			t.Errorf("not ready: %+v", c)
		}
	}
	a.stop()
	<-a.done
	b.stop()
	<-b.done
	if left, err := w.locks.List(t.Context(), lockstore.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("locks left by executors that were stopped: %+v, %v", left, err)
	}
	if left, err := w.locks.Sessions(t.Context(), lockstore.SessionFilter{}); err != nil || len(left) > 0 {
		t.Errorf("sessions left by executors that were stopped: %+v, %v", left, err)
	}
}

// Whatever state another holder left a payout in, it is taken over and finished, before
// what nobody has begun; the rail is asked for each once.
//
// Clauses: K-5.2, K-5.3
// Mutation: look for PENDING first in next, or leave a state out of step.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	ctx := t.Context()
	// What a holder did who then died, one payout for each place where it can die.
	for n, upTo := range []int{1, 2, 3, 4} {
		p := w.create(t, account(1), int64(100+n))
		grant := w.grant(t, account(1), "died")
		steps := []func() error{
			func() error { _, err := w.payments.Claim(ctx, p.PayoutID, "died", grant); return err },
			func() error { _, err := w.payments.Submit(ctx, p.PayoutID, grant); return err },
			func() error { _, err := w.rail.Submit(ctx, p.PayoutID, grant); return err },
			func() error { _, err := w.payments.Settle(ctx, p.PayoutID, grant); return err },
		}
		for _, step := range steps[:upTo] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := w.create(t, account(1), 500)
	w.until(t, "CLAIMED 1, PENDING 1, RAIL_ACKED 1, RAIL_SUBMITTED 2")
	w.start(t, "heir", nil)
	w.until(t, "POSTED 5")
	w.once(t)
	var last string
	if err := w.pay.QueryRow(ctx, `SELECT payout_id FROM ledger_entry WHERE direction = 'DEBIT' ORDER BY fence DESC LIMIT 1`).Scan(&last); err != nil || last != fresh.PayoutID {
		t.Errorf("the last to be posted is %s, want the one that nobody had begun, %s: %v", last, fresh.PayoutID, err)
	}
}

// grant acquires an account's lock for a holder that then forgets it, and ends its
// session, as a lapse would.
func (w *world) grant(t *testing.T, accountID, owner string) paystore.Token {
	t.Helper()
	session, err := w.locks.CreateSession(t.Context(), owner, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := w.locks.Acquire(t.Context(), lockstore.AcquireParams{Key: paystore.LockKey(accountID), Owner: owner, Session: session.ID, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.locks.EndSession(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	return paystore.Token(grant.Token)
}

// A rail that goes silent leaves payouts RAIL_AMBIGUOUS; nobody sends them again, others
// on the account go on, and when the rail speaks again its own record resolves them.
//
// Clauses: K-5.2, K-5.3, K-4.11
// Mutation: take what the rail does not say for NOT_FOUND in verdict, or do not leave
// an undecided payout alone in ended.
func TestSilentRail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hasty)
	w.create(t, account(1), 100) // a payment that the rail knows
	r := w.start(t, "a", nil)
	w.until(t, "POSTED 1")
	w.mood(t, `{"name": "lose-answer"}`)
	w.create(t, account(1), 200)
	w.until(t, "POSTED 2") // paid, and its answer lost: its own record says so
	w.mood(t, `{"name": "silent"}`)
	w.create(t, account(1), 300)
	w.until(t, "POSTED 2, RAIL_AMBIGUOUS 1")
	w.create(t, account(2), 400)
	w.until(t, "POSTED 2, RAIL_AMBIGUOUS 2")
	pgtest.Eventually(t, "it is asked about", func(context.Context) (bool, error) { return r.count(t, "undecided") >= 2, nil })
	w.mood(t, `{"name": "ack"}`)
	w.create(t, account(1), 500)
	w.until(t, "FAILED 2, POSTED 3") // the rail has no record of what it swallowed
	w.once(t)
}

// A rail that does not know what it has acknowledged is another rail, and fails nothing.
//
// Clauses: K-5.3
// Mutation: leave prove out of verdict.
func TestWrongRail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hasty)
	w.create(t, account(1), 100)
	r := w.start(t, "a", nil)
	w.until(t, "POSTED 1")
	w.mood(t, `{"name": "silent"}`)
	w.create(t, account(1), 200)
	w.until(t, "POSTED 1, RAIL_AMBIGUOUS 1")
	// The payment that stands posted is one that this rail never heard of.
	_, err := w.pay.Exec(t.Context(), `ALTER TABLE payout DISABLE TRIGGER ALL`)
	if err == nil {
		_, err = w.pay.Exec(t.Context(), `UPDATE payout SET idempotency_key = 'of another rail' WHERE state = 'POSTED'`)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.mood(t, `{"name": "ack"}`)
	pgtest.Eventually(t, "it is found out", func(context.Context) (bool, error) {
		return strings.Contains(r.log.String(), "is it the right one?"), nil
	})
	w.until(t, "POSTED 1, RAIL_AMBIGUOUS 1")
}

// An operator revokes the lock while the rail is asked: the executor stops at once, far
// from the end of its lease, and what it was doing is finished under a later token. The
// rail is asked once.
//
// Clauses: K-2.10, K-5.2
// Mutation: give call a context above the lease's.
func TestStopsWhenRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	p := w.create(t, account(1), 100)
	door := &slowDoor{Rail: w.rail, entered: make(chan struct{})}
	r := w.start(t, "a", func(o *executor.Options) { o.Rail, o.TTL = door, losable })
	<-door.entered
	w.revoke(t, account(1))
	w.until(t, "POSTED 1")
	w.once(t)
	if r.count(t, "lost") == 0 {
		t.Error("it did not notice that its lock was gone")
	}
	detail := 0
	if err := w.pay.QueryRow(t.Context(), `SELECT count(*) FROM payout_claim WHERE payout_id = $1`, p.PayoutID).Scan(&detail); err != nil || detail < 2 {
		t.Errorf("%d claims, want that of the revoked grant and a later one: %v", detail, err)
	}
}

// slowDoor is a rail-proxy whose first answer does not come before its caller gives up.
type slowDoor struct {
	executor.Rail

	entered chan struct{}
	first   atomic.Bool
}

func (d *slowDoor) Submit(ctx context.Context, id string, token paystore.Token) (payapi.Attempt, error) {
	attempt, err := d.Rail.Submit(context.WithoutCancel(ctx), id, token)
	if d.first.CompareAndSwap(false, true) {
		close(d.entered)
		<-ctx.Done()
		return payapi.Attempt{}, &paystore.UnknownOutcomeError{Doing: "submit", Err: context.Cause(ctx)}
	}
	return attempt, err
}

func (w *world) revoke(t *testing.T, accountID string) {
	t.Helper()
	key := paystore.LockKey(accountID)
	entry, err := w.locks.Show(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := w.locks.Revoke(t.Context(), lockstore.RevokeParams{Key: key, Token: entry.Token, Operator: "erin", Reason: "a test"})
	if err != nil || outcome.Outcome != lockstore.Revoked {
		t.Fatalf("revoke: %+v, %v", outcome, err)
	}
}

// A step whose answer is lost is made again with the same token; a write that is
// fenced out is not made again at all.
//
// Clauses: K-4.3
// Mutation: take away from passing, or add FencedError to it.
func TestSameTokenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	between := hook(w.payments)
	var lost atomic.Int32
	between.after = func(verb string) error {
		if verb == "post" && lost.Add(1) == 1 {
			return &paystore.UnknownOutcomeError{Doing: "post", Err: errors.New("the answer was lost")}
		}
		return nil
	}
	w.create(t, account(1), 100)
	r := w.start(t, "a", func(o *executor.Options) { o.Payments = between })
	w.until(t, "POSTED 1")
	pgtest.Eventually(t, "it knows", func(context.Context) (bool, error) { return r.count(t, "posted") == 1, nil })
	w.once(t)
	if got := between.tokens("post"); len(got) != 2 || got[0] != got[1] {
		t.Errorf("posted with the tokens %v, want the same twice", got)
	}
}

// A service that was away is away no longer when it says that it is ready, though
// nothing is left to ask it for.
//
// Mutation: leave the loop out of Ready, or ask nobody in it.
func TestReadyAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	var back atomic.Bool
	w.create(t, account(1), 100)
	r := w.start(t, "cut off", func(o *executor.Options) {
		o.Rail = cutOff{w.rail}
		o.Health = func(_ context.Context, service string) error {
			if service != executor.RailProxy || !back.Load() {
				return errors.New("no")
			}
			return nil
		}
	})
	ready := func(want bool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			good := true
			for _, c := range r.Ready(ctx) {
				good = good && c.State == httpd.Good
			}
			return good == want, nil
		}
	}
	pgtest.Eventually(t, "the rail's door is away", ready(false))
	w.start(t, "another", nil)
	w.until(t, "POSTED 1")
	if still, _ := ready(false)(t.Context()); !still {
		t.Error("it was ready before rail-proxy was")
	}
	back.Store(true)
	pgtest.Eventually(t, "it is ready again", ready(true))
}

// cutOff is a rail-proxy that is never reached.
type cutOff struct{ executor.Rail }

func (cutOff) Submit(context.Context, string, paystore.Token) (payapi.Attempt, error) {
	return payapi.Attempt{}, &paystore.UnreachableError{Doing: "submit", Err: errors.New("no route")}
}

func (cutOff) Ask(context.Context, string) (payapi.Attempt, error) {
	return payapi.Attempt{}, &paystore.UnreachableError{Doing: "ask", Err: errors.New("no route")}
}

// Clauses: K-4.3, K-3.2
// Mutation: add FencedError to passing, or go on with the visit after Fenced.
func TestFencedOutStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	between := hook(w.payments)
	var raised atomic.Bool
	between.before = func(verb string) error {
		if verb != "post" || !raised.CompareAndSwap(false, true) {
			return nil
		}
		// A fence drawn above the holder's token, as a revoke with --fence-account does.
		_, err := w.pay.Exec(context.WithoutCancel(t.Context()), `UPDATE account SET fence = fence + 1000 WHERE account_id = $1`, account(1))
		return err
	}
	w.create(t, account(1), 100)
	r := w.start(t, "a", func(o *executor.Options) { o.Payments = between })
	pgtest.Eventually(t, "it is fenced out", func(context.Context) (bool, error) { return r.count(t, "fenced") > 0, nil })
	r.stop()
	<-r.done
	seen := map[paystore.Token]bool{}
	for _, token := range between.tokens("post") {
		if seen[token] {
			t.Errorf("the fenced write was made again with token %s", token)
		}
		seen[token] = true
	}
	if !strings.Contains(r.log.String(), "msg=fenced_out") {
		t.Error("no event fenced_out")
	}
	w.until(t, "RAIL_ACKED 1") // never posted below the fence
}
