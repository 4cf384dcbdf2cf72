package railproxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
)

// A payout goes to the rail once, with what its row has; the same submission again is
// answered with the attempt, and nothing is forwarded.
//
// Clauses: K-5.3, K-4.10
// Mutation: forward whatever take finds, or leave repeated out of the answer.
func TestSubmitOnce(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		id := b.payout(t, account, 7)
		a := b.post(t, payapi.PathRailSubmit, 7, ref(id))
		first := want[payapi.Attempt](t, "submit", a)
		if first.Outcome != paystore.OutcomeAcked || first.Repeated || first.PresentedTokenStr != "7" || first.RailReference == "" || a.Header.Get(payapi.TokenHeader) != "7" {
			t.Errorf("submitted: %+v", first)
		}
		if first.Said == nil || first.Said.AmountMinorStr != "4711" || first.Said.Currency != "EUR" {
			t.Errorf("the rail said: %+v", first.Said)
		}
		again := want[payapi.Attempt](t, "again", b.post(t, payapi.PathRailSubmit, 7, ref(id)))
		if !again.Repeated || again.SubmissionID != first.SubmissionID || again.Said != nil {
			t.Errorf("again: %+v", again)
		}
		if got := b.reached(t, id); got != "1 1" {
			t.Errorf("the rail counts %s", got)
		}
		if n := b.metric(t, "dlockctl_rail_attempts_total", "ACKED"); n != 1 {
			t.Errorf("dlockctl_rail_attempts_total{ACKED} is %v", n)
		}
		if n := b.metric(t, "rail_duplicate_attempted_total", ""); n != 0 {
			t.Errorf("one's own repeat counts as a duplicate: %v", n)
		}
	})
}

// A stale token at the rail is 409 with both tokens, kept as FENCED, counted twice over
// and logged; nothing of it is forwarded.
//
// Clauses: K-4.1, K-4.4, K-4.12
// Mutation: leave an event out of observe.
func TestStaleTokenAtTheRail(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		newer := b.payout(t, account, 9)
		want[payapi.Attempt](t, "the newer", b.post(t, payapi.PathRailSubmit, 9, ref(newer)))
		id := b.payout(t, account, 5)
		fenced(t, "below the mark", b.post(t, payapi.PathRailSubmit, 5, ref(id)), paystore.ResourceRail, 5, 9)
		b.wantAttempts(t, id, "5 FENCED")
		if got := b.reached(t, id); got != "0 0" {
			t.Errorf("the rail counts %s", got)
		}
		if f, d := b.metric(t, "lock_fenced_out_total", "rail"), b.metric(t, "rail_duplicate_attempted_total", ""); f != 1 || d != 1 {
			t.Errorf("lock_fenced_out_total{rail} is %v, rail_duplicate_attempted_total %v", f, d)
		}
		for _, event := range []string{"fenced_out", "duplicate_rail_submission_attempted"} {
			line := "msg=" + event + " key=account:" + account + " resource=rail account_id=" + account + " payout_id=" + id + " presented_token=5 stored_token=9"
			if log := b.Log.String(); strings.Count(log, line) != 1 {
				t.Errorf("the log has no line %s:\n%s", line, log)
			}
		}
		b.exec(t, `UPDATE fence_floor SET floor_token = 100, raised_by = 'erin', reason = 'restored' WHERE point = 'rail'`)
		low := b.payout(t, another, 50)
		fenced(t, "below the floor", b.post(t, payapi.PathRailSubmit, 50, ref(low)), paystore.ResourceFloor, 50, 100)
	})
}

// A holder that took the payout over finds the attempt of the one before: it is the
// answer, an event, and no second payment.
//
// Clauses: K-5.3, K-4.4
// Mutation: forward when the attempt is another's.
func TestAttemptOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.payout(t, account, 7)
	first := want[payapi.Attempt](t, "the first", b.post(t, payapi.PathRailSubmit, 7, ref(id)))
	b.claim(t, id, 8)
	second := want[payapi.Attempt](t, "the second", b.post(t, payapi.PathRailSubmit, 8, ref(id)))
	if !second.Repeated || second.SubmissionID != first.SubmissionID || second.PresentedToken != 7 || b.reached(t, id) != "1 1" {
		t.Errorf("the second: %+v; the rail counts %s", second, b.reached(t, id))
	}
	if n := b.metric(t, "rail_duplicate_attempted_total", ""); n != 1 || !strings.Contains(b.Log.String(), "duplicate_rail_submission_attempted") {
		t.Errorf("rail_duplicate_attempted_total is %v", n)
	}
}

// The negative control over HTTP: with the switch off the stale holder's submission
// reaches the rail as well, which pays it twice when it is broken; with it on it does
// not. The service that has it off says so.
//
// Clauses: K-4.5
// Mutation: leave FencingDisabled out of door, or drop Fencing from Ready.
func TestFencingOff(t *testing.T) {
	t.Parallel()
	on := setup(t, 16)
	off := serve(t, on.dbs, on.sim, on.dbs.Pay.Config(t, "t_rail"), railproxy.Options{FencingDisabled: true})
	on.mood(t, `{"name": "broken"}`)
	for _, tt := range []struct {
		proxy   bundle
		account string
		reached string
	}{{on, account, "1 1"}, {off, another, "2 2"}} {
		id := tt.proxy.payout(t, tt.account, 7, 8)
		want[payapi.Attempt](t, "the holder", tt.proxy.post(t, payapi.PathRailSubmit, 8, ref(id)))
		stale := tt.proxy.post(t, payapi.PathRailSubmit, 7, ref(id))
		if got := tt.proxy.reached(t, id); got != tt.reached {
			t.Errorf("the rail counts %s, want %s; the stale holder was answered %d %s", got, tt.reached, stale.Status, stale.Body)
		}
	}
	const loud = "FENCING IS OFF (rail.proxy.fencing.enabled=false)"
	for _, s := range []struct {
		bundle
		loud    bool
		enabled float64
	}{{on, false, 1}, {off, true, 0}} {
		a := s.get(t, "/readyz")
		if a.Status != http.StatusOK || strings.Contains(string(a.Body), loud) != s.loud || strings.Contains(s.Log.String(), loud) != s.loud {
			t.Errorf("loud %t: %d %s", s.loud, a.Status, a.Body)
		}
		if got := s.metric(t, "dlockctl_fencing_enabled", ""); got != s.enabled {
			t.Errorf("dlockctl_fencing_enabled is %v, want %v", got, s.enabled)
		}
	}
}

// What the rail does not answer in time is TIMEOUT, 200 and no error; asked afterwards
// the rail tells, and it is recorded.
//
// Clauses: K-5.3, K-4.11
// Mutation: answer TIMEOUT with an error, or leave said out of the answer.
func TestUnknownAtTheRail(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]paystore.Outcome{"lose-answer": paystore.OutcomeAcked, "answer-twice": paystore.OutcomeAcked, "silent": paystore.OutcomeTimeout} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupWith(t, 16, railproxy.Options{Deadline: hasty})
			b.mood(t, fmt.Sprintf(`{"name": %q}`, name))
			id := b.payout(t, account, 7)
			a := want[payapi.Attempt](t, "submit", b.post(t, payapi.PathRailSubmit, 7, ref(id)))
			if a.Outcome != paystore.OutcomeTimeout || a.Trouble == "" || a.Said != nil {
				t.Errorf("submitted: %+v", a)
			}
			b.wantAttempts(t, id, "7 TIMEOUT")
			b.mood(t, `{"name": "ack"}`)
			asked := want[payapi.Attempt](t, "ask", b.post(t, payapi.PathRailAsk, 0, ref(id)))
			if asked.Outcome != outcome || asked.Said == nil {
				t.Errorf("asked: %+v, want %s", asked, outcome)
			}
			if outcome == paystore.OutcomeTimeout && asked.Said.Outcome != payapi.NotFound {
				t.Errorf("the rail never had it, and says %+v", asked.Said)
			}
			b.wantAttempts(t, id, "7 "+string(outcome))
			if got := b.metric(t, "dlockctl_rail_attempts_total", "TIMEOUT"); got != 1 {
				t.Errorf("dlockctl_rail_attempts_total{TIMEOUT} is %v", got)
			}
		})
	}
}

// A rail that does not answer a question is 502, and nothing is recorded.
//
// Clauses: K-5.3
// Mutation: drop unanswered from fail.
func TestRailUnreachable(t *testing.T) {
	t.Parallel()
	b := setupWith(t, 16, railproxy.Options{Deadline: hasty})
	id := b.payout(t, account, 7)
	b.mood(t, `{"name": "lose-answer"}`)
	want[payapi.Attempt](t, "submit", b.post(t, payapi.PathRailSubmit, 7, ref(id)))
	b.sim.Stop()
	<-b.sim.Stopped
	for what, a := range map[string]httpdtest.Answer{
		"ask": b.post(t, payapi.PathRailAsk, 0, ref(id)), "lookup": b.get(t, payapi.PathRailLookup+"?payout_id="+id), "adopt": b.post(t, payapi.PathRailAdopt, 7, ref(id)),
	} {
		err := refused(t, what, a, http.StatusBadGateway, "rail_unreachable").err
		if _, ok := errors.AsType[*payapi.RailError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.wantAttempts(t, id, "7 TIMEOUT")
}

// An attempt that paydb forgot is looked up, adopted once, and forwarded by nobody.
//
// Clauses: K-7.9
// Mutation: exchange the paths of lookup and ask, or submit in adopt.
func TestLookupAndAdopt(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.payout(t, account, 7)
	if said := want[payapi.Answer](t, "look up", b.get(t, payapi.PathRailLookup+"?payout_id="+id)); said.Outcome != payapi.NotFound {
		t.Errorf("before: %+v", said)
	}
	refused(t, "adopt what the rail does not know", b.post(t, payapi.PathRailAdopt, 7, ref(id)), http.StatusConflict, "evidence")
	// The rail paid it in another life of paydb.
	if a := b.sim.Do(t, http.MethodPost, "/payments", "", fmt.Sprintf(
		`{"idempotency_key": "key-%s", "payout_id": %q, "account_id": %q, "amount_minor": 4711, "amount_minor_str": "4711", "currency": "EUR"}`, id, id, account)); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if said := want[payapi.Answer](t, "look up", b.get(t, payapi.PathRailLookup+"?payout_id="+id)); said.Outcome != paystore.OutcomeAcked || said.AmountMinorStr != "4711" {
		t.Errorf("after: %+v", said)
	}
	first := want[payapi.Attempt](t, "adopt", b.post(t, payapi.PathRailAdopt, 7, ref(id)))
	again := want[payapi.Attempt](t, "adopt again", b.post(t, payapi.PathRailAdopt, 7, ref(id)))
	if first.Outcome != paystore.OutcomeAcked || first.Repeated || !again.Repeated || again.SubmissionID != first.SubmissionID || b.reached(t, id) != "1 1" {
		t.Errorf("adopted %+v, then %+v; the rail counts %s", first, again, b.reached(t, id))
	}
	other := b.payout(t, another, 8)
	refused(t, "ask about no attempt", b.post(t, payapi.PathRailAsk, 0, ref(other)), http.StatusNotFound, "not_found")
}

// Wrong state, unknown payout, no token, somebody else's token, and what the row has
// already: each is refused with its code, and nothing reaches the rail.
//
// Clauses: K-4.10, K-1.6
// Mutation: add amount_minor to payapi.PayoutRef, or drop ParseToken.
func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	claimed, id := b.claimed(t, account, 7), b.payout(t, another, 8)
	for _, path := range []string{payapi.PathRailSubmit, payapi.PathRailAdopt} {
		refused(t, path+" without a token", b.post(t, path, 0, ref(id)), http.StatusUnprocessableEntity, "invalid_argument")
		refused(t, path+" with a token above 2^53", b.post(t, path, paystore.MaxToken+1, ref(id)), http.StatusUnprocessableEntity, "invalid_argument")
		refused(t, path+" of nobody's payout", b.post(t, path, 7, ref(uuid.NewString())), http.StatusNotFound, "not_found")
		refused(t, path+" of no id", b.post(t, path, 7, ref("x")), http.StatusUnprocessableEntity, "invalid_argument")
		for field, value := range map[string]string{"account_id": `"` + account + `"`, "amount_minor": "1", "currency": `"USD"`, "idempotency_key": `"k"`} {
			a, err := b.send(t.Context(), http.MethodPost, path, 8, fmt.Sprintf(`{"payout_id": %q, %q: %s}`, id, field, value))
			if err != nil {
				t.Fatal(err)
			}
			refused(t, path+" with "+field, a, http.StatusUnprocessableEntity, "usage")
		}
	}
	err := refused(t, "CLAIMED", b.post(t, payapi.PathRailSubmit, 7, ref(claimed)), http.StatusConflict, "wrong_state").err
	if e, ok := errors.AsType[*paystore.StateError](err); !ok || e.Have != paystore.Claimed {
		t.Errorf("CLAIMED: %v", err)
	}
	refused(t, "a token that never claimed it", b.post(t, payapi.PathRailSubmit, 9, ref(id)), http.StatusUnprocessableEntity, "invalid_argument")
	if claimed, other := b.reached(t, claimed), b.reached(t, id); claimed != "0 0" || other != "0 0" {
		t.Errorf("the rail counts %s and %s", claimed, other)
	}
}

// A caller that hangs up changes nothing: the rail's answer is recorded all the same.
// And when the service ends, what is under way is recorded before Close returns.
//
// Clauses: K-5.3
// Mutation: call Submit with a deadline of the request's, or leave proxy.Close out of Close.
func TestCloseHearsTheRailOut(t *testing.T) {
	t.Parallel()
	dbs, sim := pgtest.Migrated(t, 16), simulate(t)
	client, err := httprail.New(sim.URL, httprail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held := heldRail{Rail: client, paid: make(chan struct{}), free: make(chan struct{})}
	b := serve(t, dbs, sim, dbs.Pay.Config(t, "t_rail"), railproxy.Options{Rail: held})
	id := b.payout(t, account, 7)
	hungUp, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := b.send(hungUp, http.MethodPost, payapi.PathRailSubmit, 7, fmt.Sprintf(`{"payout_id": %q}`, id))
		gone <- err
	}()
	<-held.paid
	hangUp()
	if err := <-gone; err == nil {
		t.Error("the caller did not hang up")
	}
	b.Stop()
	<-b.Stopped
	// Late enough that a Close which does not wait has returned.
	time.AfterFunc(300*time.Millisecond, func() { close(held.free) })
	b.service.Close()
	b.wantAttempts(t, id, "7 ACKED")
}

// heldRail is a rail that has paid and whose answer is held back until it is set free, or
// nobody listens any more.
type heldRail struct {
	rail.Rail

	paid, free chan struct{}
}

func (r heldRail) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	said, err := r.Rail.Submit(ctx, req)
	close(r.paid)
	select {
	case <-r.free:
		return said, err
	case <-ctx.Done():
		return rail.Answer{}, context.Cause(ctx)
	}
}

// A COMMIT whose answer is lost before anything was forwarded is 500 outcome_unknown, or
// goes on when its attempt is read back; either way the same call again is safe, and the
// rail has it once at most.
//
// Clauses: K-2.9, K-4.11
// Mutation: answer UnknownOutcomeError with 503.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	cutter := pgtest.NewCutter(t, dbs.Pay.Server)
	opts := railproxy.Options{Database: paystore.Options{Pooled: true}}
	b := serve(t, dbs, simulate(t), cutter.Config(dbs.Pay.Config(t, "t_rail")), opts)
	want[payapi.Attempt](t, "warm", b.post(t, payapi.PathRailSubmit, 3, ref(b.payout(t, account, 3))))
	id := b.payout(t, account, 7)
	cutter.Cut(pgtest.BeforeCommit)
	err := refused(t, "cut", b.post(t, payapi.PathRailSubmit, 7, ref(id)), http.StatusInternalServerError, "outcome_unknown").err
	if _, ok := errors.AsType[*paystore.UnknownOutcomeError](err); !ok || cutter.Cuts() != 1 {
		t.Errorf("cut: %v", err)
	}
	if got := b.reached(t, id); got != "0 0" {
		t.Errorf("forwarded before its COMMIT answered: %s", got)
	}
	again := want[payapi.Attempt](t, "again", b.post(t, payapi.PathRailSubmit, 7, ref(id)))
	if again.Outcome != paystore.OutcomeAcked || b.reached(t, id) != "1 1" {
		t.Errorf("again: %+v; the rail counts %s", again, b.reached(t, id))
	}
	// The commit stands and nobody heard it: the proxy reads its own attempt back.
	id = b.payout(t, account, 9)
	cutter.Cut(pgtest.AfterCommit)
	heard := b.post(t, payapi.PathRailSubmit, 9, ref(id))
	if heard.Status != http.StatusOK && heard.Status != http.StatusInternalServerError {
		t.Errorf("cut after the commit: %d %s", heard.Status, heard.Body)
	}
	if got := b.reached(t, id); got != "1 1" && got != "0 0" {
		t.Errorf("cut after the commit: the rail counts %s", got)
	}
}
