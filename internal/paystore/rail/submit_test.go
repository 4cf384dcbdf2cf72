package rail_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// The rail is asked for what the payout row says, after the attempt stands, and its
// answer is recorded. The same token repeats the answer, and is not fenced.
//
// Clauses: K-4.10, K-4.11, K-5.3
// Mutation: forward in take's `found` case, or fence before looking whose attempt it is.
func TestSubmitForwardsWhatTheRowSaysOnce(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		got, err := p.Submit(t.Context(), strings.ToUpper(id), 5)
		if err != nil || got.Outcome != paystore.OutcomeAcked || got.RailReference == "" || got.Repeated || got.Said.Text != "booked" {
			t.Fatalf("submit: %+v, %v", got, err)
		}
		again, err := p.Submit(t.Context(), id, 5)
		if diff := cmp.Diff(got.Attempt, again.Attempt); err != nil || diff != "" || !again.Repeated {
			t.Errorf("repeated: %+v, %v (-first +again):\n%s", again, err, diff)
		}
		want := []rail.Request{{Key: "key-" + id, PayoutID: id, AccountID: account, AmountMinor: 4711, Currency: "EUR"}}
		if diff := cmp.Diff(want, b.rail.requests, cmpopts.IgnoreFields(rail.Request{}, "SendBy")); diff != "" {
			t.Errorf("the rail was asked (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"5 ACKED " + got.RailReference}, b.attempts(t, id)); diff != "" {
			t.Error(diff)
		}
		if b.mark(t, account) != 5 || len(b.seen.lines()) != 0 {
			t.Errorf("mark %s, events %v", b.mark(t, account), b.seen.lines())
		}
	})
}

// A later holder finds the attempt, answers with it and forwards nothing; its mark
// stands, so that the earlier holder is fenced from then on.
//
// Clauses: K-4.4, K-4.11, K-5.2, K-5.3
// Mutation: look for the attempt before the mark and answer with it, or forward it.
func TestHigherTokenAnswersWithTheAttempt(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5, 7)
		first, err := p.Submit(t.Context(), id, 7)
		if err != nil {
			t.Fatal(err)
		}
		b.claim(t, id, 9)
		got, err := p.Submit(t.Context(), id, 9)
		if diff := cmp.Diff(first.Attempt, got.Attempt); err != nil || diff != "" || !got.Repeated {
			t.Errorf("taken over: %+v, %v (-first +got):\n%s", got, err, diff)
		}
		if b.rail.calls() != 1 || b.mark(t, account) != 9 {
			t.Errorf("%d calls of the rail, mark %s; want 1, 9", b.rail.calls(), b.mark(t, account))
		}
		// Its own attempt is its own answer still; it harms nobody.
		if again, err := p.Submit(t.Context(), id, 7); err != nil || again.SubmissionID != first.SubmissionID {
			t.Errorf("the first again: %+v, %v", again, err)
		}
		if _, err := p.Submit(t.Context(), id, 5); !fencedBy(err, paystore.ResourceRail, 5, 9) {
			t.Errorf("the stale one: %v", err)
		}
		want := []string{rail.EventDuplicate + " 9 7", rail.EventFencedOut + " 5 9", rail.EventDuplicate + " 5 9"}
		if diff := cmp.Diff(want, b.seen.lines()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func fencedBy(err error, resource paystore.Resource, presented, stored paystore.Token) bool {
	fenced, ok := errors.AsType[*paystore.FencedError](err)
	return ok && fenced.Resource == resource && fenced.Presented == presented && fenced.Stored == stored
}

// A stale token leaves a FENCED row, is told so, and reaches no rail; nor does a
// token that has paid another payout of the account (K-4.2). A FENCED row holds no
// slot.
//
// Clauses: K-4.1, K-4.2, K-4.4, K-4.11
// Mutation: drop the INSERT of fence, or write `<=` in queries/mark.sql.
func TestStaleTokenIsFencedOut(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		first, second := b.payout(t, account, 5), b.payout(t, account, 3, 5, 6)
		if _, err := p.Submit(t.Context(), first, 5); err != nil {
			t.Fatal(err)
		}
		for _, stale := range []paystore.Token{3, 5} {
			got, err := p.Submit(t.Context(), second, stale)
			if !fencedBy(err, paystore.ResourceRail, stale, 5) || got.SubmissionID != "" {
				t.Errorf("token %s: %+v, %v", stale, got, err)
			}
		}
		if _, err := p.Submit(t.Context(), second, 6); err != nil {
			t.Errorf("the account's next token: %v", err)
		}
		want := []string{"3 FENCED", "5 FENCED", "6 ACKED ref-" + ("key-" + second)[:8]}
		if diff := cmp.Diff(want, b.attempts(t, second)); diff != "" || b.rail.calls() != 2 {
			t.Errorf("%d calls of the rail, attempts (-want +got):\n%s", b.rail.calls(), diff)
		}
		event := b.seen.told[0]
		if event.Name != rail.EventFencedOut || event.AccountID != account || event.PayoutID != second {
			t.Errorf("event %+v", event)
		}
	})
}

// Who did not claim the payout does not pay it, however high the token, and leaves
// no mark: a forged one would close the account for ever.
//
// Clauses: K-1.6, K-4.10, K-5.2
// Mutation: take the `!r.payout.claimed` cases out of take.
func TestTokenMustHaveClaimedThePayout(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		_, err := p.Submit(t.Context(), id, paystore.MaxToken)
		if !errors.Is(err, paystore.ErrInvalid) || !strings.Contains(err.Error(), "claim it first") {
			t.Errorf("a token that claimed nothing: %v", err)
		}
		if b.mark(t, account) != 0 || len(b.attempts(t, id)) != 0 {
			t.Errorf("mark %s, attempts %v", b.mark(t, account), b.attempts(t, id))
		}
		if _, err := p.Submit(t.Context(), id, 4); !fencedBy(err, paystore.ResourcePayout, 4, 5) {
			t.Errorf("a token below the claim: %v", err)
		}
		if diff := cmp.Diff([]string{"4 FENCED"}, b.attempts(t, id)); diff != "" || b.rail.calls() != 0 {
			t.Errorf("%d calls, attempts:\n%s", b.rail.calls(), diff)
		}
	})
}

// What cannot be submitted is refused by name, and leaves neither mark nor attempt.
//
// Clauses: K-4.11, K-4.12, K-5.1, K-7.9
// Mutation: commit the mark before the attempt.
func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	p := b.proxy(t, rail.Options{})
	claimed := b.claimed(t, account, 5)
	_, err := p.Submit(t.Context(), claimed, 5)
	if state, ok := errors.AsType[*paystore.StateError](err); !ok || state.Have != paystore.Claimed || len(state.Want) != 1 {
		t.Errorf("a CLAIMED payout: %v", err)
	}
	if _, err := p.Submit(t.Context(), account, 5); !errors.Is(err, paystore.ErrNotFound) {
		t.Errorf("no payout: %v", err)
	}
	for _, token := range []paystore.Token{0, -1, paystore.MaxToken + 1} {
		if _, err := p.Submit(t.Context(), claimed, token); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("token %s: %v", token, err)
		}
	}
	if _, err := p.Submit(t.Context(), "payout-1", 5); !errors.Is(err, paystore.ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
	submitted := b.payout(t, account, 5)
	b.exec(t, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'test'`)
	if _, err := p.Submit(t.Context(), submitted, 5); !isGateClosed(err) {
		t.Errorf("the gate is closed: %v", err)
	}
	if b.mark(t, account) != 0 || len(b.attempts(t, submitted)) != 0 || b.rail.calls() != 0 {
		t.Errorf("mark %s, attempts %v, %d calls", b.mark(t, account), b.attempts(t, submitted), b.rail.calls())
	}
	b.exec(t, `UPDATE pay_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`)
	b.exec(t, `UPDATE fence_floor SET floor_token = 8 WHERE point = 'rail'`)
	if _, err := p.Submit(t.Context(), submitted, 5); !fencedBy(err, paystore.ResourceFloor, 5, 8) {
		t.Errorf("below the floor: %v", err)
	}
	if diff := cmp.Diff([]string{"5 FENCED"}, b.attempts(t, submitted)); diff != "" || b.mark(t, account) != 0 {
		t.Errorf("mark %s, attempts:\n%s", b.mark(t, account), diff)
	}
	// From before a restore, which is no duplicate.
	if diff := cmp.Diff([]string{rail.EventFencedOut + " 5 8"}, b.seen.lines()); diff != "" {
		t.Error(diff)
	}
}

func isGateClosed(err error) bool {
	_, ok := errors.AsType[*paystore.GateClosedError](err)
	return ok
}

// A payout that moves on while its submission waits is refused by paydb itself, and
// named as it is then.
//
// Clauses: K-4.11, K-5.1
// Mutation: take notForRail out of reserve.
func TestPayoutMovesOnMeanwhile(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		b.exec(t, rail.Queries()["mark"], account, 4)
		blocker := b.dbs.Pay.Conn(t, "super")
		if _, err := blocker.Exec(t.Context(), `BEGIN; UPDATE rail_high_water SET updated_at = now()`); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 1)
		go func() {
			_, err := p.Submit(t.Context(), id, 5)
			errs <- err
		}()
		b.waits(t, "the mark waits", 0)
		b.exec(t, `UPDATE payout SET state = 'FAILED' WHERE payout_id = $1`, id)
		if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		err := <-errs
		if state, ok := errors.AsType[*paystore.StateError](err); !ok || state.Have != paystore.Failed {
			t.Errorf("submit: %v, want that it is FAILED", err)
		}
		if b.mark(t, account) != 4 || b.rail.calls() != 0 {
			t.Errorf("mark %s, %d calls; want neither moved", b.mark(t, account), b.rail.calls())
		}
	})
}

// Sixteen submissions of one payout at once, by one holder and by sixteen: the rail
// is asked exactly once, and everybody who is not too late hears of one attempt. With
// fencing off it is asked sixteen times.
//
// Clauses: K-4.5, K-4.11, K-5.3
// Mutation: forward in take's `found` case; fencing off (the test does).
func TestConcurrentSubmitsReachTheRailOnce(t *testing.T) {
	t.Parallel()
	const clients = 16
	oneHolder, many := [clients]paystore.Token{}, [clients]paystore.Token{}
	for i := range clients {
		oneHolder[i], many[i] = 20, paystore.Token(10+i)
	}
	for name, tc := range map[string]struct {
		tokens   [clients]paystore.Token
		claims   []paystore.Token
		disabled bool
		calls    int
	}{
		"one holder":      {oneHolder, oneHolder[:1], false, 1},
		"sixteen holders": {many, many[:], false, 1},
		"fencing off":     {many, many[:], true, clients},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				id := b.payout(t, account, tc.claims...)
				// Two processes, as far as the database can tell.
				opts := rail.Options{FencingDisabled: tc.disabled, Timeout: time.Minute}
				proxies := []*rail.Proxy{b.proxy(t, opts), b.proxy(t, opts)}
				var mu sync.Mutex
				attempts := map[string]bool{}
				var group sync.WaitGroup
				for i, token := range tc.tokens {
					group.Go(func() {
						got, err := proxies[i%2].Submit(t.Context(), id, token)
						_, fenced := errors.AsType[*paystore.FencedError](err)
						if err != nil && (!fenced || len(tc.claims) == 1 || tc.disabled) {
							t.Errorf("client %d: %v", i, err)
						}
						mu.Lock()
						defer mu.Unlock()
						if got.SubmissionID != "" {
							attempts[got.SubmissionID] = true
						}
					})
				}
				group.Wait()
				if b.rail.calls() != tc.calls || len(attempts) != 1 {
					t.Errorf("the rail was called %d times, want %d; attempts %v, want one\n%v", b.rail.calls(), tc.calls, attempts, b.attempts(t, id))
				}
			})
		})
	}
}

// With fencing off, mark and slot refuse nothing: the stale holder pays again, and
// the rail shows it. The attempt that the payout is settled by stands as it was.
//
// Clauses: K-4.5
// Mutation: return take's result with FencingDisabled, or record over another's attempt.
func TestFencingDisabledForwardsEverything(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{FencingDisabled: true})
		id := b.payout(t, account, 5, 9)
		current, err := p.Submit(t.Context(), id, 9)
		if err != nil || current.Outcome != paystore.OutcomeAcked {
			t.Fatalf("the current holder: %+v, %v", current, err)
		}
		for i, token := range []paystore.Token{5, 9, 4} {
			got, err := p.Submit(t.Context(), id, token)
			if err != nil || got.Outcome != paystore.OutcomeAcked || got.SubmissionID != "" || b.rail.calls() != i+2 {
				t.Errorf("token %s: %+v, %v, %d calls", token, got, err, b.rail.calls())
			}
		}
		want := []string{fmt.Sprintf("9 ACKED %s", current.RailReference)}
		if diff := cmp.Diff(want, b.attempts(t, id)); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}
