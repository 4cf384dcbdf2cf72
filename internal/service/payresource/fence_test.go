package payresource_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// A stale token is 409 with both tokens at the account, at the payout and below the
// floor, is counted by the resource, and logged with the lock's key.
//
// Clauses: K-4.1, K-4.4, K-4.12
// Mutation: leave the FencedError out of fail, or swap its two tokens in payapi.
func TestStaleTokens(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		id := b.at(t, payer, paystore.RailAcked, 5)
		b.exec(t, `UPDATE account SET fence = 9 WHERE account_id = $1`, payer)
		fenced(t, "post below the account's fence", b.post(t, payapi.PathPost, 5, ref(id)), paystore.ResourceAccount, 5, 9)
		taken := b.at(t, other, paystore.RailSubmitted, 20)
		want[payapi.Payout](t, "take over", b.post(t, payapi.PathClaim, 30, payapi.ClaimPayout{PayoutID: taken, Holder: "next"}), http.StatusOK)
		for path, body := range moves(taken) {
			if path == payapi.PathRelease { // not one's own any more: nothing to release
				continue
			}
			fenced(t, path+" of a payout taken over", b.post(t, path, 20, body), paystore.ResourcePayout, 20, 30)
		}
		b.exec(t, `UPDATE fence_floor SET floor_token = 100, raised_by = 'erin', reason = 'restored' WHERE point = 'account'`)
		fenced(t, "claim below the floor", b.post(t, payapi.PathClaim, 40, payapi.ClaimPayout{PayoutID: taken, Holder: "next"}), paystore.ResourceFloor, 40, 100)

		if n := b.metric(t, "lock_fenced_out_total", "account"); n != 10 {
			t.Errorf("lock_fenced_out_total{account} is %v, want 10", n)
		}
		line := "msg=fenced_out key=account:" + payer + " resource=account account_id=" + payer + " payout_id=" + id + " presented_token=5 stored_token=9"
		if log := b.Log.String(); strings.Count(log, "msg=fenced_out") != 10 || !strings.Contains(log, line) {
			t.Errorf("the log has no line %s:\n%s", line, log)
		}
	})
}

// What the ledger refuses is answered, counted and logged as the ledger's. The account's
// row is locked from (a) on, so behind an intact (a) the leg never meets a higher fence;
// the error is made here.
//
// Clauses: K-4.1, K-4.4
// Mutation: answer "account" for every resource in resource.
func TestFencedByTheLedger(t *testing.T) {
	t.Parallel()
	log, metrics := &httpdtest.Log{}, telemetry.NewMetrics("payment-resource")
	fail := payresource.Fail(slog.New(slog.NewTextHandler(log, nil)), metrics)
	err := fail(t.Context(), fmt.Errorf("post: %w", &paystore.FencedError{Resource: paystore.ResourceLedger, AccountID: payer, PayoutID: "p", Presented: 5, Stored: 9}))
	p, ok := problem.From(err)
	if !ok || p.Status != http.StatusConflict || p.Code != problem.Fenced || !strings.Contains(string(p.Details), `"stored_token":9`) {
		t.Errorf("%v: %+v", err, p)
	}
	b := bundle{Service: &httpdtest.Service{Metrics: metrics}}
	if n := b.metric(t, "lock_fenced_out_total", "ledger"); n != 1 || !strings.Contains(log.String(), "msg=fenced_out key=account:"+payer+" resource=ledger") {
		t.Errorf("lock_fenced_out_total{ledger} is %v:\n%s", n, log)
	}
}

// One grant posts one payout of an account (K-4.2): the second is fenced out by the first.
//
// Clauses: K-4.2
// Mutation: FencingDisabled: true in setup.
func TestOneGrantPostsOnePayout(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	first, second := b.create(t, payer, "EUR", 100).PayoutID, b.create(t, payer, "EUR", 100).PayoutID
	for _, id := range []string{first, second} {
		b.bring(t, id, paystore.RailSubmitted, 5)
		b.attempt(t, id, 5, "ACKED")
		want[payapi.Payout](t, "settle", b.post(t, payapi.PathSettle, 5, ref(id)), http.StatusOK)
	}
	want[payapi.Posting](t, "the first", b.post(t, payapi.PathPost, 5, ref(first)), http.StatusOK)
	fenced(t, "the second", b.post(t, payapi.PathPost, 5, ref(second)), paystore.ResourceAccount, 5, 5)
}

// With the switch off a stale holder posts, and the service says so at start, in
// readiness and in its gauge; with it on it does not post, and says nothing of the kind.
//
// Clauses: K-4.5
// Mutation: pass posting.Options{} in store, or drop Fencing from Ready.
func TestFencingOff(t *testing.T) {
	t.Parallel()
	on := setup(t, 16)
	off := serve(t, on.dbs, on.dbs.Pay.Config(t, "t_resource"), payresource.Options{FencingDisabled: true})
	id := on.at(t, payer, paystore.RailAcked, 5)
	on.exec(t, `UPDATE account SET fence = 9 WHERE account_id = $1`, payer)
	fenced(t, "on", on.post(t, payapi.PathPost, 5, ref(id)), paystore.ResourceAccount, 5, 9)
	posted := want[payapi.Posting](t, "off", off.post(t, payapi.PathPost, 5, ref(id)), http.StatusOK)
	if posted.AlreadyPosted {
		t.Errorf("off: %+v", posted)
	}
	const loud = "FENCING IS OFF (payment.fencing.enabled=false)"
	for _, s := range []struct {
		bundle
		loud    bool
		enabled float64
	}{{on, false, 1}, {off, true, 0}} {
		a := s.get(t, "/readyz")
		if a.Status != http.StatusOK || strings.Contains(string(a.Body), loud) != s.loud || strings.Contains(s.Log.String(), loud) != s.loud {
			t.Errorf("loud %t: %d %s\n%s", s.loud, a.Status, a.Body, s.Log)
		}
		if got := s.metric(t, "dlockctl_fencing_enabled", ""); got != s.enabled {
			t.Errorf("dlockctl_fencing_enabled is %v, want %v", got, s.enabled)
		}
	}
}

// An operator raises a fence once, with who and why; a rerun finds it.
//
// Clauses: K-3.2
// Mutation: send the token of the header in place of the body's.
func TestRaiseFence(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	to := int64(42)
	raise := payapi.RaiseFence{AccountID: payer, Token: &to, TokenStr: "42", Operator: "erin", Reason: "revoked"}
	first := want[payapi.Raised](t, "raise", b.post(t, payapi.PathRaiseFence, 0, raise), http.StatusOK)
	again := want[payapi.Raised](t, "raise again", b.post(t, payapi.PathRaiseFence, 0, raise), http.StatusOK)
	if !first.Raised || first.FromStr != "0" || first.ToStr != "42" || again.Raised || again.From != 42 {
		t.Errorf("%+v, then %+v", first, again)
	}
	a := want[payapi.Account](t, "show", b.get(t, payapi.PathAccount+"?account_id="+payer), http.StatusOK)
	if a.Fence != 42 || a.FenceStr != "42" || a.BalanceMinorStr != "1000000" || a.OpeningMinorStr != "1000000" {
		t.Errorf("%+v", a)
	}
	raise.AccountID = clearing
	refused(t, "a clearing account", b.post(t, payapi.PathRaiseFence, 0, raise), http.StatusUnprocessableEntity, "invalid_argument")
	raise.AccountID = nobody
	refused(t, "nobody's", b.post(t, payapi.PathRaiseFence, 0, raise), http.StatusNotFound, "not_found")
	raise.AccountID, raise.TokenStr = payer, "43"
	refused(t, "two tokens", b.post(t, payapi.PathRaiseFence, 0, raise), http.StatusUnprocessableEntity, "invalid_argument")
}
