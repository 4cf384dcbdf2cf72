package posting_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// An unknown outcome is settled by evidence, which is kept with who gave it; evidence
// of a refused resolution is not.
//
// Clauses: K-5.3, K-4.11
// Mutation: record in a transaction of its own, leave a verdict out of Resolve's table, or
// RAIL_SUBMITTED out of it.
func TestResolve(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		for verdict, state := range map[paystore.Verdict]paystore.State{
			paystore.VerdictPaid: paystore.RailAcked, paystore.VerdictRejected: paystore.Failed,
			paystore.VerdictNotFound: paystore.Failed, paystore.VerdictUndetermined: paystore.Abandoned,
		} {
			token := b.token()
			id := b.at(t, payer, paystore.RailAmbiguous, token)
			p, err := b.Resolve(ctx, resolution(id, token, verdict))
			if err != nil || p.State != state || p.ClaimToken != token {
				t.Fatalf("%s: %+v, %v", verdict, p, err)
			}
			want := []paystore.Resolution{{
				Source: paystore.SourceOperator, Verdict: verdict, Evidence: json.RawMessage(`{"ticket": 4711}`),
				Operator: "erin", Reason: "asked the bank", LoginRole: "t_resource", ClientAddress: "127.0.0.1",
			}}
			got := b.payout(t, id).Resolutions
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(paystore.Resolution{}, "ResolutionID", "RecordedAt")); diff != "" {
				t.Errorf("%s is kept as (-want +got):\n%s", verdict, diff)
			}
			if state == paystore.RailAcked {
				if _, err := b.Post(ctx, id, token); err != nil {
					t.Errorf("post after the resolution: %v", err)
				}
			}
		}
		// What was submitted and has no attempt leads nowhere else; nor does what the rail
		// rejected while PAID stands.
		for verdict, state := range map[paystore.Verdict]paystore.State{
			paystore.VerdictPaid: paystore.RailAcked, paystore.VerdictRejected: paystore.Failed, paystore.VerdictNotFound: paystore.Failed,
		} {
			token := b.token()
			id := b.at(t, payer, paystore.RailSubmitted, token)
			if p, err := b.Resolve(ctx, resolution(id, token, verdict)); err != nil || p.State != state || len(b.payout(t, id).Resolutions) != 1 {
				t.Errorf("%s without an attempt: %+v, %v", verdict, p, err)
			}
			b.exec(t, `UPDATE payout SET state = 'FAILED' WHERE payout_id = $1 AND state = 'RAIL_ACKED'`, id)
			if verdict == paystore.VerdictNotFound {
				continue
			}
			token = b.token()
			id = b.at(t, payer, paystore.RailSubmitted, token)
			b.attempt(t, id, token, "REJECTED")
			if _, err := b.Attest(ctx, resolution(id, token, paystore.VerdictPaid)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Settle(ctx, id, token); !is[*paystore.EvidenceError](err) {
				t.Errorf("settle a rejected one against PAID: %v", err)
			}
			if p, err := b.Resolve(ctx, resolution(id, token, verdict)); err != nil || p.State != state {
				t.Errorf("%s, rejected and said to be paid: %+v, %v", verdict, p, err)
			}
			b.exec(t, `UPDATE payout SET state = 'FAILED' WHERE payout_id = $1 AND state = 'RAIL_ACKED'`, id)
		}
		submitted := b.token()
		if _, err := b.Resolve(ctx, resolution(b.at(t, payer, paystore.RailSubmitted, submitted), submitted, paystore.VerdictUndetermined)); !is[*paystore.StateError](err) {
			t.Errorf("abandon what has no attempt: %v", err)
		}
		// Nobody resolves what may still leave for the rail.
		token := b.token()
		id := b.at(t, payer, paystore.RailSubmitted, token)
		b.attempt(t, id, token, "")
		b.exec(t, `UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = $1`, id)
		for _, verdict := range paystore.Verdicts() {
			if _, err := b.Resolve(ctx, resolution(id, token, verdict)); !is[*paystore.EvidenceError](err) {
				t.Errorf("%s while in flight: %v", verdict, err)
			}
		}
		// Nor against what the attempt says in the end.
		b.exec(t, `UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'r', resolved_at = now() WHERE payout_id = $1`, id)
		if _, err := b.Resolve(ctx, resolution(id, token, paystore.VerdictNotFound)); !is[*paystore.EvidenceError](err) {
			t.Errorf("NOT_FOUND, and it was acknowledged: %v", err)
		}
		if p := b.payout(t, id); p.State != paystore.RailAmbiguous || len(p.Resolutions) != 0 {
			t.Errorf("refused resolutions left %s and %+v", p.State, p.Resolutions)
		}
		if _, err := b.Resolve(ctx, resolution(id, token, paystore.VerdictPaid)); err != nil {
			t.Errorf("PAID: %v", err)
		}
		b.balanced(t)
	})
}

// Mutation: drop a check from ResolveParams.valid or GiveUp.
func TestResolveRefusesArguments(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	id := b.at(t, payer, paystore.RailAmbiguous, token)
	for says, change := range map[string]func(*posting.ResolveParams){
		"not a UUID":       func(p *posting.ResolveParams) { p.PayoutID = "x" },
		"below 1":          func(p *posting.ResolveParams) { p.Token = 0 },
		`source "rumour"`:  func(p *posting.ResolveParams) { p.Source = "rumour" },
		`verdict "MAYBE"`:  func(p *posting.ResolveParams) { p.Verdict = "MAYBE" },
		"evidence is not":  func(p *posting.ResolveParams) { p.Evidence = json.RawMessage(`[1]`) },
		"evidence is not ": func(p *posting.ResolveParams) { p.Evidence = json.RawMessage(`{}`) },
		"a JSON object":    func(p *posting.ResolveParams) { p.Evidence = nil },
		"says something":   func(p *posting.ResolveParams) { p.Evidence = json.RawMessage(`{"a":"\u0000"}`) },
		"operator is":      func(p *posting.ResolveParams) { p.Operator = "" },
		"reason is blank":  func(p *posting.ResolveParams) { p.Reason = "\n" },
	} {
		p := resolution(id, token, paystore.VerdictPaid)
		change(&p)
		if _, err := b.Resolve(t.Context(), p); !errors.Is(err, paystore.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	for _, args := range [][2]string{{"", "why"}, {"erin", ""}, {"erin", " "}} {
		if _, err := b.GiveUp(t.Context(), id, 0, args[0], args[1]); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("give up as %q for %q: %v", args[0], args[1], err)
		}
	}
	if p := b.payout(t, id); p.State != paystore.RailAmbiguous || len(p.Resolutions) > 0 {
		t.Errorf("it is %+v", p)
	}
}

// An operator gives up what has not left for the rail, once, and it is kept who and
// why; what is claimed meanwhile is taken over first.
//
// Clauses: K-5.1
// Mutation: leave the record out of GiveUp, or the state out of queries/give_up.sql.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		operator := posting.New(open(t, b.dbs.Pay.Config(t, "t_operator"), paystore.Options{}), posting.Options{})
		id := b.create(t, payer, 100)
		for range 2 {
			if p, err := operator.GiveUp(ctx, id, 0, "erin", "typo"); err != nil || p.State != paystore.Failed || p.ClaimToken != 0 {
				t.Errorf("%+v, %v", p, err)
			}
		}
		p := b.payout(t, id)
		if len(p.Resolutions) != 1 || p.Resolutions[0].Operator != "erin" || p.Resolutions[0].Reason != "typo" || p.Resolutions[0].LoginRole != "t_operator" ||
			p.Resolutions[0].Verdict != paystore.VerdictUndetermined || !strings.Contains(string(p.Resolutions[0].Evidence), `"give up"`) {
			t.Errorf("kept: %+v", p.Resolutions)
		}
		claimed := b.at(t, payer, paystore.Claimed, 7)
		_, err := operator.GiveUp(ctx, claimed, 0, "erin", "typo")
		if held, ok := errors.AsType[*paystore.ClaimedError](err); !ok || held.Token != 7 {
			t.Errorf("claimed meanwhile: %v", err)
		}
		if _, err := operator.Claim(ctx, claimed, "erin", 8); err != nil {
			t.Fatal(err)
		}
		if p, err := operator.GiveUp(ctx, claimed, 8, "erin", "typo"); err != nil || p.State != paystore.Failed || p.ClaimToken != 8 {
			t.Errorf("taken over: %+v, %v", p, err)
		}
		gone := b.at(t, payer, paystore.RailSubmitted, 9)
		if _, err := operator.GiveUp(ctx, gone, 0, "erin", "typo"); !is[*paystore.StateError](err) {
			t.Errorf("at the rail: %v", err)
		}
		if _, err := operator.GiveUp(ctx, nobody, 0, "erin", "typo"); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("nothing: %v", err)
		}
	})
}

// A fence is raised once for each token drawn, never lowered, and recorded with who
// and why; a rerun does nothing twice. An operator may do it.
//
// Clauses: K-3.2, K-4.7, K-4.10, K-4.12
// Mutation: record a raise that changed nothing, or write "fence = :token" without its predicate.
func TestRaiseFence(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		operator := posting.New(open(t, b.dbs.Pay.Config(t, "t_operator"), paystore.Options{}), posting.Options{})
		for _, tt := range []struct {
			to, from, fence paystore.Token
			raised          bool
		}{{9, 0, 9, true}, {9, 9, 9, false}, {8, 9, 9, false}, {20, 9, 20, true}} {
			from, raised, err := operator.RaiseFence(ctx, payer, tt.to, "erin", "revoked")
			if err != nil || from != tt.from || raised != tt.raised || b.account(t, payer).Fence != tt.fence {
				t.Errorf("to %s: from %s, %t, %v; the fence is %s", tt.to, from, raised, err, b.account(t, payer).Fence)
			}
		}
		b.exec(t, `UPDATE fence_floor SET floor_token = 100`)
		if from, raised, err := operator.RaiseFence(ctx, payer, 30, "erin", "revoked"); err != nil || raised || from != 20 {
			t.Errorf("below the floor, which refuses more: %s, %t, %v", from, raised, err)
		}
		var records int
		if err := b.super.QueryRow(ctx, `SELECT count(*) FROM account_fence_raise WHERE operator = 'erin' AND reason = 'revoked'
			AND (account_id, raised_from, raised_to) IN (($1, 0, 9), ($1, 9, 20))`, payer).Scan(&records); err != nil || records != 2 {
			t.Errorf("%d records, %v", records, err)
		}
		if _, _, err := operator.RaiseFence(ctx, clearing, 200, "erin", "revoked"); !errors.Is(err, paystore.ErrInvalid) || !strings.Contains(err.Error(), "clearing account") {
			t.Errorf("clearing account: %v", err)
		}
		if _, _, err := operator.RaiseFence(ctx, nobody, 200, "erin", "revoked"); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("no account: %v", err)
		}
		if _, _, err := operator.RaiseFence(ctx, payer, 0, "", ""); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("nothing given: %v", err)
		}
	})
}
