package posting_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// The rail's record is kept for a payout in any open state, moves nothing, opens the
// closed gate for that payout alone, and is not kept twice.
//
// Clauses: K-7.9, K-5.3
// Mutation: drop the NOT EXISTS of queries/record_resolution.sql, or record nothing.
func TestAttest(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		states := []paystore.State{paystore.Pending, paystore.Claimed, paystore.RailSubmitted, paystore.RailAmbiguous, paystore.RailAcked}
		var ids []string
		for _, state := range states {
			ids = append(ids, b.at(t, payer, state, b.token()))
		}
		stranger := b.create(t, payer, 100)
		b.closeGate(t)
		for i, state := range states {
			if _, err := b.Claim(t.Context(), ids[i], "erin", b.token()); !is[*paystore.GateClosedError](err) {
				t.Errorf("%s before: %v", state, err)
			}
			for range 2 {
				p, err := b.Attest(t.Context(), resolution(ids[i], b.token(), paystore.VerdictPaid))
				if err != nil || p.State != state {
					t.Fatalf("%s: %+v, %v", state, p, err)
				}
			}
			if p := b.payout(t, ids[i]); p.State != state || len(p.Resolutions) != 1 || p.Resolutions[0].Verdict != paystore.VerdictPaid {
				t.Errorf("%s: kept %+v", state, p.Resolutions)
			}
			if p, err := b.Claim(t.Context(), ids[i], "erin", b.token()); err != nil || p.State.Final() {
				t.Errorf("%s after: %+v, %v", state, p, err)
			}
		}
		if _, err := b.Claim(t.Context(), stranger, "erin", b.token()); !is[*paystore.GateClosedError](err) {
			t.Errorf("another payout: %v", err)
		}
		// Closed anew, for a copy: what was kept before counts no more, and is kept again.
		b.exec(t, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'a copy'`)
		if _, err := b.Attest(t.Context(), resolution(ids[0], b.token(), paystore.VerdictPaid)); err != nil || len(b.payout(t, ids[0]).Resolutions) != 2 {
			t.Errorf("since the gate was closed: %v, %+v", err, b.payout(t, ids[0]).Resolutions)
		}
	})
}

// Nothing is kept that proves nothing, comes too late, or speaks against a payment on
// record.
//
// Clauses: K-4.11, K-4.12, K-5.2, K-7.9
// Mutation: drop a case of unattestable, or the verdict from Attest.
func TestAttestRefuses(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		attest := func(id string, token paystore.Token, verdict paystore.Verdict) error {
			_, err := b.Attest(t.Context(), resolution(id, token, verdict))
			return err
		}
		flying := b.at(t, payer, paystore.RailSubmitted, 5)
		b.attempt(t, flying, 5, "")
		if err := attest(flying, 6, paystore.VerdictNotFound); !is[*paystore.EvidenceError](err) {
			t.Errorf("in flight: %v", err)
		}
		fencedBy(t, "below the claim", attest(flying, 4, paystore.VerdictPaid), paystore.ResourcePayout, 4, 5)
		released := b.at(t, other, paystore.Claimed, 7)
		if _, err := b.Release(t.Context(), released, 7); err != nil {
			t.Fatal(err)
		}
		fencedBy(t, "below a claim of before", attest(released, 6, paystore.VerdictPaid), paystore.ResourcePayout, 6, 7)
		if err := attest(released, 8, paystore.VerdictPaid); err != nil {
			t.Fatal(err)
		}
		for _, verdict := range []paystore.Verdict{paystore.VerdictNotFound, paystore.VerdictRejected, paystore.VerdictUndetermined} {
			if err := attest(released, 9, verdict); !is[*paystore.EvidenceError](err) {
				t.Errorf("%s against PAID: %v", verdict, err)
			}
		}
		if err := attest(b.at(t, payer, paystore.Failed, 10), 11, paystore.VerdictPaid); !is[*paystore.StateError](err) {
			t.Errorf("final: %v", err)
		}
		if err := attest(nobody, 11, paystore.VerdictPaid); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("nothing: %v", err)
		}
		if err := attest(flying, 0, "MAYBE"); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("no verdict: %v", err)
		}
		b.exec(t, `UPDATE fence_floor SET floor_token = 50`)
		fencedBy(t, "below the floor", attest(released, 50, paystore.VerdictPaid), paystore.ResourceFloor, 50, 50)
		if n := len(b.payout(t, released).Resolutions) + len(b.payout(t, flying).Resolutions); n != 1 {
			t.Errorf("%d resolutions, want 1", n)
		}
	})
}

// What the rail is to be asked about: with the gate open, the ambiguous, the overdue,
// and what was paid and not followed; with it closed, everything that is not final and
// not resolved.
//
// Clauses: K-7.9, K-5.2
// Mutation: drop a line of queries/unsettled.sql, or a column of its comparison.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		names := map[string]string{}
		put := func(name, id string) string {
			names[id] = name
			return id
		}
		put("pending", b.at(t, payer, paystore.Pending, 0))
		put("acked", b.at(t, payer, paystore.RailAcked, b.token()))
		put("unattempted", b.at(t, payer, paystore.RailSubmitted, b.token()))
		put("ambiguous", b.at(t, other, paystore.RailAmbiguous, b.token()))
		token := b.token()
		b.attempt(t, put("flying", b.at(t, payer, paystore.RailSubmitted, token)), token, "")
		put("posted", b.at(t, payer, paystore.Posted, b.token()))
		token = b.token()
		overdue := put("overdue", b.at(t, payer, paystore.RailSubmitted, token))
		b.exec(t, `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, $2) ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token`, payer, token)
		b.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, submitted_at)
			SELECT gen_random_uuid(), payout_id, idempotency_key, claim_token, now() - interval '1 hour' FROM payout WHERE payout_id = $1`, overdue)
		for name, verdict := range map[string]paystore.Verdict{"paid": paystore.VerdictPaid, "free": paystore.VerdictNotFound} {
			if _, err := b.Attest(t.Context(), resolution(put(name, b.create(t, dollars, 100)), b.token(), verdict)); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, want map[string]bool) {
			t.Helper()
			page, err := b.Unsettled(t.Context(), time.Minute, nil, posting.MostListed)
			if err != nil {
				t.Fatal(err)
			}
			b.checkPages(t, page)
			got := map[string]bool{}
			list := page.Payouts
			for i, u := range list {
				got[names[u.PayoutID]] = u.HeldBack
				if i > 0 && list[i-1].AccountID > u.AccountID {
					t.Errorf("%s: not account by account", what)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("open", map[string]bool{"ambiguous": false, "overdue": false, "paid": false})
		b.closeGate(t)
		check("closed", map[string]bool{
			"pending": true, "acked": true, "unattempted": true, "ambiguous": true, "flying": true, "overdue": true, "paid": false,
		})
	})
}

// An operator's evidence is kept under the operator's own rights.
func TestOperatorAttests(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	operator := posting.New(open(t, b.dbs.Pay.Config(t, "t_operator"), paystore.Options{}), posting.Options{})
	id := b.create(t, payer, 100)
	if _, err := operator.Attest(t.Context(), resolution(id, 3, paystore.VerdictNotFound)); err != nil {
		t.Error(err)
	}
	if page, err := operator.Unsettled(t.Context(), time.Minute, nil, 1); err != nil || len(page.Payouts) != 0 || page.Total != 0 {
		t.Errorf("%v, %v", page, err)
	}
}

// checkPages reads the same list in pages of two, each with how many there are from
// there on.
func (b bundle) checkPages(t *testing.T, whole posting.UnsettledPage) {
	t.Helper()
	got := []posting.Unsettled{}
	var last *posting.Unsettled
	for {
		page, err := b.Unsettled(t.Context(), time.Minute, last, 2)
		if err != nil {
			t.Fatal(err)
		}
		var held int64
		for _, u := range whole.Payouts[len(got):] {
			if u.HeldBack {
				held++
			}
		}
		if left := len(whole.Payouts) - len(got); page.Total != int64(left) || page.HeldBack != held || len(page.Payouts) != min(left, 2) {
			t.Errorf("%d of %d listed, %d held back; want %d, and %d held back", len(page.Payouts), page.Total, page.HeldBack, left, held)
		}
		if len(page.Payouts) == 0 {
			break
		}
		got = append(got, page.Payouts...)
		last = &got[len(got)-1]
	}
	if diff := cmp.Diff(whole.Payouts, got); diff != "" {
		t.Errorf("in pages (-whole +pages):\n%s", diff)
	}
	for _, limit := range []int{-1, 0, posting.MostListed + 1} {
		if _, err := b.Unsettled(t.Context(), time.Minute, nil, limit); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("a page of %d: %v", limit, err)
		}
	}
}

// closeGate makes paydb one whose gate was opened elsewhere.
func (b bundle) closeGate(t *testing.T) {
	t.Helper()
	b.exec(t, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`)
	b.exec(t, `UPDATE pay_gate SET timeline_id = timeline_id + 1`)
	b.exec(t, `ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
}
