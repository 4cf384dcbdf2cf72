package html_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/html"
)

// hostile is what an owner, a key or a reason may hold: markup, a script, an
// address to fetch, a bidi mark, a control character, and no blank to break at.
const hostile = `</script><script>window.hit=1</script><img src="http://198.51.100.7/x" onerror="window.hit=1">'"&` +
	"\u202e\x1b[31m" + `javascript:window.hit=1`

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const (
	account  = "7c0b8c0e-3b7f-4a52-9d3e-1f2a3b4c5d6e"
	account2 = "0f5c9b1a-6a41-4a0e-8a67-9e0e5d1b2c3d"
	payout   = "c4a760a8-9f4e-4b7b-8f0e-2f9d0f1e2a3b"
)

func second(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// sample is a report with something in every part of the page, and hostile text
// wherever the databases hold free text.
func sample() (reconcile.Report, html.Extra) {
	r := reconcile.Report{
		RunID: "01JDW3Q8ZK2M", Outcome: reconcile.Breaks, Complete: false,
		Missing: []reconcile.Missing{
			{Class: "D02", Reason: "the login role may not read fencing_token_seq: " + hostile},
			{Reason: "stopped after 30 s (--max-duration)"},
		},
		StartedAt: noon, FinishedAt: second(12.4),
		Scope: reconcile.Scope{Currencies: []string{"EUR", "JPY"}},
		Pay: reconcile.Snapshot{
			SystemIdentifier: 7443200111222333444, Timeline: 1, LSN: "0/3A51F2C8", At: noon, Standby: true, LagMS: 1840, Schema: 19,
		},
		Lock:      &reconcile.Snapshot{SystemIdentifier: 7443200111222333555, Timeline: 2, LSN: "0/1B00FF10", At: second(0.02), Schema: 10},
		LastToken: 9007199254740991, LastTokenStr: "9007199254740991",
		Coverage: []reconcile.Coverage{
			coverage("A01", "balance_drift", reconcile.High, "accounts", 500000, 3, 0, ""),
			coverage("A05", "one_legged", reconcile.Critical, "payouts", 4123456, 1, 0, ""),
			coverage("B12", "revoked_authored", reconcile.Critical, "tokens", 90210, 14, 0, ""),
			coverage("B16", "stale_claim", reconcile.Medium, "payouts", 120, 0, 0, ""),
			coverage("C01", "acked_not_posted", reconcile.Critical, "attempts", 4123400, 0, 1, ""),
			coverage("D02", "sequence_unsafe", reconcile.Medium, "objects", 0, 0, 0, "the login role may not read fencing_token_seq: "+hostile),
			coverage("A02", "balance_unanchored", reconcile.Low, "accounts", 500000, 0, 0, ""),
		},
		Totals: []reconcile.Total{
			{Class: "A01", Currency: "EUR", Findings: 2, AmountMinor: "125000"},
			{Class: "A01", Currency: "JPY", Findings: 1, AmountMinor: "123456789012345678901234567890"},
			{Class: "A05", Currency: "EUR", Findings: 1, AmountMinor: "7000"},
			{Class: "B12", Currency: "EUR", Findings: 14, AmountMinor: "98000"},
		},
		Pipeline: []reconcile.PipelineRow{
			{State: "PENDING", Currency: "EUR", Payouts: 1204, AmountMinor: "88012300", Oldest: second(-90)},
			{State: "RAIL_SUBMITTED", Currency: "EUR", Payouts: 17, AmountMinor: "1250000", Oldest: second(-12)},
			{State: "RAIL_AMBIGUOUS", Currency: "JPY", Payouts: 2, AmountMinor: "40000", Oldest: second(-7300)},
		},
		Unanchored: 12, Notes: []string{"one connection alone could share the snapshot"},
		Timelines: []reconcile.Timeline{story()},
	}
	for i := range 14 {
		r.Findings = append(r.Findings, revokedAuthor(i))
	}
	r.Findings = append(
		r.Findings,
		reconcile.Finding{
			ID: "A05-5a1c9e77881d2f03", Class: "A05", Name: "one_legged", Severity: reconcile.Critical, Currency: "EUR", AmountMinor: "7000",
			What:      "payout has a DEBIT leg of 7000 and no CREDIT leg",
			AccountID: account2, PayoutID: payout, At: second(-3), Suspects: []int64{131},
			Attribution: reconcile.Attribution{Confidence: reconcile.Likely, Token: 131, TokenStr: "131", Holder: "executor-b@host-7", Key: "account:" + account2, Source: "lock_grant", Why: "its only leg carries this token"},
		},
		drift(account, "EUR", "120000", 1), drift(account2, "EUR", "-5000", 2), drift("99999999-1111-4222-8333-444444444444", "JPY", "-123456789012345678901234567890", 3),
	)
	r.Findings = append(r.Findings, reconcile.Finding{ID: "D08-1", Class: "D08", Severity: reconcile.Medium, What: "stopped after 30 s (--max-duration)"})
	r.Pending = []reconcile.Finding{
		{ID: "C01-1", Class: "C01", Name: "acked_not_posted", Severity: reconcile.Critical, PayoutID: payout, Currency: "EUR", AmountMinor: "1200", What: "acknowledged 12 s ago, not posted yet"},
	}
	return r, html.Extra{Version: "1.4.0", Pay: "paydb on pay.example " + hostile, Lock: "lockdb on lock.example", All: "dlockctl reconcile -o jsonl"}
}

func coverage(class, name string, s reconcile.Severity, over string, checked, findings, pending int64, skipped string) reconcile.Coverage {
	return reconcile.Coverage{Class: class, Name: name, Severity: s, Checked: checked, Over: over, Findings: findings, Pending: pending, Skipped: skipped, DurationMS: 1200}
}

func revokedAuthor(i int) reconcile.Finding {
	return reconcile.Finding{
		ID: fmt.Sprintf("B12-%016x", i), Class: "B12", Name: "revoked_authored", Severity: reconcile.Critical,
		What:      fmt.Sprintf("token 106 wrote a leg of 7000 EUR %d s after it was revoked", i+9),
		AccountID: account, PayoutID: payout, Subject: "entry " + hostile, Currency: "EUR", AmountMinor: "7000", At: second(float64(i)), Suspects: []int64{106},
		Attribution: reconcile.Attribution{
			Confidence: reconcile.Proven, Token: 106, TokenStr: "106", Holder: "worker-a@host-1 " + hostile, Key: "account:" + account,
			Source: "lock_grant", RevokedBy: "alice@ops", Reason: "it hangs " + hostile, Others: []int64{107, 108}, Why: "the leg carries this token, and its audit row is older",
		},
		Details: json.RawMessage(`{"revoked_at":"2026-11-29T11:59:51Z","written_at":"2026-11-29T12:00:00Z","amount":7000,"note":"<b>bold</b>"}`),
		Next:    "dlockctl token explain 106",
	}
}

func drift(accountID, currency, amount string, i int) reconcile.Finding {
	return reconcile.Finding{
		ID: fmt.Sprintf("A01-%016x", i), Class: "A01", Name: "balance_drift", Severity: reconcile.High,
		What:      "balance is not opening balance plus credits less debits: off by " + amount,
		AccountID: accountID, Currency: currency, AmountMinor: amount,
		Attribution: reconcile.Attribution{Confidence: reconcile.None, Why: "no token explains this difference: no leg is younger than the last accepted balance change"},
		Details:     json.RawMessage(`{"balance":1120000,"opening":1000000,"credits":0,"debits":0}`),
	}
}

// story is a holder that was revoked and wrote on, after the next one had begun.
func story() reconcile.Timeline {
	holderA, holderB := "worker-a@host-1 "+hostile, "worker-b@host-2"
	at := func(s float64, kind reconcile.MomentKind, token int64, holder, source, what string) reconcile.Moment {
		return reconcile.Moment{At: second(s), Kind: kind, What: what, Source: source, PayoutID: payout}.Of(token, holder)
	}
	zombie := at(0, reconcile.MomentPosted, 106, holderA, "ledger_entry", "DEBIT 7000 EUR on the payer, 9 s after the revoke")
	zombie.Finding = "B12-0000000000000000"
	return reconcile.Timeline{AccountID: account, Currency: "EUR", Findings: []string{"B12-0000000000000000"}, LeftOut: 340, Events: []reconcile.Moment{
		at(-40, reconcile.MomentReleased, 105, "worker-c@host-3", "lock_grant", "the grant ended"),
		at(-30, reconcile.MomentGranted, 106, holderA, "lock_grant", "lock account:"+account),
		at(-29, reconcile.MomentClaimed, 106, holderA, "payout_claim", "claimed the payout"),
		at(-28, reconcile.MomentSubmitted, 106, holderA, "rail_submission", "presented at the rail"),
		at(-27, reconcile.MomentAnswered, 106, holderA, "rail_submission", "the rail answered ACKED"),
		at(-9, reconcile.MomentRevoked, 106, holderA, "lock_revocation", "by alice@ops: it hangs "+hostile),
		at(-9, reconcile.MomentFenceRaised, 107, "", "operator_log", "fence drawn against token 106"),
		at(-8, reconcile.MomentGranted, 108, holderB, "lock_grant", "lock account:"+account),
		at(-6, reconcile.MomentClaimed, 108, holderB, "payout_claim", "took the payout over"),
		at(-5, reconcile.MomentPosted, 108, holderB, "ledger_entry", "DEBIT 7000 EUR on the payer"),
		zombie,
		at(0.4, reconcile.MomentRefused, 106, holderA, "rail_submission", "refused: the mark was 107"),
		at(2, reconcile.MomentReleased, 108, holderB, "lock_grant", "the grant ended"),
	}}
}

// clean is a report of a complete run without a finding.
func clean() reconcile.Report {
	return reconcile.Report{
		RunID: "01JDW3Q8ZK2N", Outcome: reconcile.Clean, Complete: true, StartedAt: noon, FinishedAt: second(0.8),
		Pay:      reconcile.Snapshot{SystemIdentifier: 1, LSN: "0/1", At: noon, Schema: 19},
		Coverage: []reconcile.Coverage{coverage("A01", "balance_drift", reconcile.High, "accounts", 7, 0, 0, "")},
	}
}

// crowded is a report with so many findings that most are left out.
func crowded() reconcile.Report {
	r, _ := sample()
	r.Findings, r.Coverage = nil, nil
	for class := range 40 {
		id := fmt.Sprintf("X%02d", class)
		r.Coverage = append(r.Coverage, coverage(id, "rule_"+id, reconcile.High, "payouts", 100000, 300, 0, ""))
		for i := range 300 {
			f := revokedAuthor(i)
			f.ID, f.Class, f.Severity = fmt.Sprintf("%s-%d", id, i), id, reconcile.High
			f.Attribution.Token = int64(class*300 + i + 1)
			r.Findings = append(r.Findings, f)
		}
	}
	for i := range 400 {
		f := drift(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "EUR", fmt.Sprint(i+1), i)
		r.Findings = append(r.Findings, f)
	}
	r.Coverage = append(r.Coverage, coverage("A01", "balance_drift", reconcile.High, "accounts", 500000, 400, 0, ""))
	return r
}
