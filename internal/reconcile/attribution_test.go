package reconcile_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// At least 95 of a hundred planted breaks that have an author name it, and no finding
// is proven on anybody else, be there an author or none.
//
// Clauses: K-8.2
// Mutation: let suspects start with the last one, take the first candidate of A01 by
// the fence, or leave endedBefore's order out.
func TestAttributionNamesTheAuthor(t *testing.T) {
	t.Parallel()
	for i, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 1800, Accounts: 256, Seed: uint64(7 + i), Open: 2})
		var faults []plant.Fault
		for _, variant := range plant.Variants() {
			if slices.Contains(alone, variant) || sealed(t, variant) {
				continue
			}
			fault, err := w.Plant(t.Context(), variant)
			if err != nil {
				t.Fatal(err)
			}
			faults = append(faults, fault)
		}
		report := w.run(t)
		checkAuthors(t, faults, report.Findings)
	}
}

// The same of many breaks of each class at once.
//
// Clauses: K-8.2
// Mutation: look the holders up by the first finding of a question only.
func TestAttributionOfManyBreaks(t *testing.T) {
	t.Parallel()
	w := healthyOf(t, pgtest.Majors()[0], plant.Params{Payouts: 2000, Accounts: 400, Seed: 11, Open: 2})
	faults, err := w.PlantMany(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	checkAuthors(t, faults, w.run(t).Findings)
}

// checkAuthors holds the attributions to the faults' authors.
func checkAuthors(t *testing.T, faults []plant.Fault, findings []reconcile.Finding) {
	t.Helper()
	var authors, right int
	for _, fault := range faults {
		if fault.AccountID+fault.PayoutID+fault.Subject == "" && fault.Class[0] == 'B' {
			fault.Subject = strconv.FormatInt(fault.Token, 10) // what tells findings of the walk apart
		}
		for _, f := range findings {
			// Two payouts share a reference, and it is about both.
			another := f.Class == "C06" && !slices.Contains(f.Suspects, fault.Token)
			if f.Class != fault.Class || !names(f, fault) || another {
				continue
			}
			a := f.Attribution
			if a.Why == "" || a.Confidence == "" {
				t.Errorf("%s does not say why: %+v", f.ID, a)
			}
			if a.Confidence == reconcile.Proven && a.Token != fault.Token {
				t.Errorf("%s is proven on %d, and the author is %d: %s", f.ID, a.Token, fault.Token, a.Why)
			}
			if fault.Token == 0 {
				continue
			}
			authors++
			if a.Token == fault.Token && a.Holder != "" && a.TokenStr == strconv.FormatInt(a.Token, 10) {
				right++
				continue
			}
			t.Logf("%s names %d %q, the author is %d: %s", f.ID, a.Token, a.Holder, fault.Token, a.Why)
		}
	}
	if authors < 50 || right*100 < authors*95 {
		t.Errorf("%d of %d planted breaks name their author", right, authors)
	}
}

// What somebody with the owner's rights did by hand convicts no holder, and what two
// records bear out does. $A is the account, $P its last payout and $Q the one before;
// $T is the last one's token, $U the one before's.
//
// Clauses: K-8.2
// Mutation: judge A01 by the fence alone, leave together out of posted, p.fence or p.claim
// out of otherClaim, outranked out of lateLeg, the grant's key out of loneFence, or the
// answer, or one of the ages, out of attribution_payouts.
func TestAttributionConvictsNobodyWrongly(t *testing.T) {
	t.Parallel()
	const unpostLast = `UPDATE account a SET balance_minor = a.balance_minor - l.amount_minor FROM ledger_entry l WHERE l.payout_id = '$P' AND l.direction = 'CREDIT' AND a.account_id = l.account_id;
		DELETE FROM ledger_entry WHERE payout_id = '$P';`
	const (
		// The payout before the last, as its holder would have posted it after the last.
		postLate = `UPDATE payout SET updated_at = (SELECT l.updated_at + interval '11 min' FROM payout l WHERE l.payout_id = '$P') WHERE payout_id = '$Q';
			UPDATE ledger_entry SET created_at = (SELECT updated_at FROM payout WHERE payout_id = '$Q') WHERE payout_id = '$Q';`
		payLate     = `UPDATE rail_submission SET submitted_at = x.at, resolved_at = x.at FROM (SELECT updated_at + interval '10 min' AS at FROM payout WHERE payout_id = '$P') x WHERE payout_id = '$Q';`
		grantLasted = `UPDATE lock_grant SET ended_at = ended_at + interval '2 days' WHERE fencing_token = $U`
		revoke      = `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
			SELECT lock_key, owner_id, fencing_token, 'oncall', 'hangs', granted_at + interval '1 min' FROM lock_grant WHERE fencing_token = $T`
	)
	cases := []struct {
		name, sql, class string
		token            string // of $T, $U; "" for nobody
		confidence       reconcile.Confidence
		why              string
		lock             string // statements for lockdb
	}{
		{"balance by hand", `UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = '$A'`, "A01", "", reconcile.None, "the balance was changed without a token", ""},
		{
			"balance by hand, by what a posting was", `UPDATE account a SET balance_minor = a.balance_minor + p.amount_minor FROM payout p WHERE p.payout_id = '$P' AND a.account_id = '$A'`,
			"A01", "$T", reconcile.Likely, "the leg of payout $P stands, and the balance does not know it", "",
		},
		{"leg edited", `UPDATE ledger_entry SET amount_minor = amount_minor + 7 WHERE payout_id = '$P' AND direction = 'DEBIT'`, "A06", "$T", reconcile.Likely, "authored by: ", ""},
		{"leg edited, at the account", `UPDATE ledger_entry SET amount_minor = amount_minor + 7 WHERE payout_id = '$P' AND direction = 'DEBIT'`, "A01", "$T", reconcile.Likely, "authored by the token, is not of the payout's amount; who changed it, no row says", ""},
		{"debit dated later", `UPDATE ledger_entry SET created_at = (SELECT updated_at + interval '10 min' FROM payout WHERE payout_id = '$P') WHERE payout_id = '$Q' AND direction = 'DEBIT'`, "B03", "$U", reconcile.Likely, "the late leg carries the token", ""},
		{"fence set to another's token", `UPDATE account SET fence = (SELECT max(claim_token) FROM payout WHERE state = 'POSTED') WHERE account_id = '$A'`, "B02", "", reconcile.None, "granted to nobody on the account's lock", ""},
		{
			"legs put down to a former claim", `INSERT INTO payout_claim SELECT '$P', $U, claimed_by, claimed_at FROM payout_claim WHERE payout_id = '$Q' AND claim_token = $U;
			UPDATE ledger_entry SET fence = $U WHERE payout_id = '$P'`, "B04", "$U", reconcile.Likely, "both legs carry the token", "",
		},
		{
			"legs and fence put down to one that never claimed it", `UPDATE ledger_entry SET fence = $U WHERE payout_id = '$P'; UPDATE account SET fence = $U WHERE account_id = '$A'`,
			"B04", "$U", reconcile.Likely, "both legs carry the token", "",
		},
		{
			"claim put down to a former one", `INSERT INTO payout_claim SELECT '$P', $U, claimed_by, claimed_at FROM payout_claim WHERE payout_id = '$Q' AND claim_token = $U;
			UPDATE payout p SET claim_token = $U, claimed_by = c.claimed_by FROM payout_claim c WHERE p.payout_id = '$P' AND c.payout_id = '$P' AND c.claim_token = $U`,
			"B04", "$T", reconcile.Likely, "both legs carry the token", "",
		},
		{
			"posted after the lease, and the next one dated back", `UPDATE ledger_entry SET created_at = (SELECT updated_at - interval '3 min' FROM payout WHERE payout_id = '$Q') WHERE payout_id = '$P' AND direction = 'DEBIT'`,
			"B03", "$U", reconcile.Likely, "the late leg carries the token", `UPDATE lock_grant SET granted_at = granted_at - interval '9 min', ended_at = (SELECT granted_at FROM lock_grant g WHERE g.fencing_token = $U) - interval '5 min' WHERE fencing_token = $U`,
		},
		{"debited without a leg", unpostLast, "A01", "$T", reconcile.Likely, "the balance and the fence know its posting", ""},
		{"debited without a leg, and a cent more", unpostLast + `UPDATE account SET balance_minor = balance_minor - 1 WHERE account_id = '$A'`, "A01", "$T", reconcile.Likely, "changed by hand as well", ""},
		{"account set back", `UPDATE account a SET balance_minor = a.balance_minor + p.amount_minor, fence = $U FROM payout p WHERE p.payout_id = '$P' AND a.account_id = '$A'`, "A01", "$T", reconcile.Likely, "or were set back since", ""},
		{"posted late", postLate, "B03", "$U", reconcile.Proven, "its grant had ended before", ""},
		// As when paydb's clock was ahead, and was set back before the next one posted.
		{"posted before, and dated later", postLate + `UPDATE ledger_entry SET amount_minor = amount_minor WHERE payout_id = '$P'`, "B03", "$U", reconcile.Likely, "the late leg carries the token", ""},
		{"sent before, and dated later", payLate + postLate + `UPDATE rail_submission SET outcome = outcome WHERE payout_id = '$P'`, "B11", "$U", reconcile.Likely, "the late attempt carries the token", ""},
		{"posted late under a grant that stood", postLate, "B03", "$U", reconcile.Likely, "the late leg carries the token", grantLasted},
		{"posted late under a name that was not granted", postLate, "B03", "$U", reconcile.Likely, `it claimed as "executor`, "UPDATE lock_grant SET owner_id = 'another' WHERE fencing_token = $U"},
		{"sent late", payLate + postLate, "B11", "$U", reconcile.Proven, "whose grant had ended before", ""},
		{"sent late under a grant that stood", payLate + postLate, "B11", "$U", reconcile.Likely, "the late attempt carries the token", grantLasted},
		{"sent late, and no answer", payLate + postLate + `UPDATE rail_submission SET outcome = NULL, resolved_at = NULL, rail_reference = NULL WHERE payout_id = '$Q'`, "B11", "$U", reconcile.Likely, "the late attempt carries the token", ""},
		{
			"attempt dated later, and its answer not", payLate + postLate + `UPDATE rail_submission SET resolved_at = resolved_at - interval '9 min' WHERE payout_id = '$Q'`,
			"B11", "$U", reconcile.Likely, "the late attempt carries the token", "",
		},
		{"attempt dated after the posting", payLate, "B11", "$U", reconcile.Likely, "the late attempt carries the token", ""},
		{"revoked, and a debit dated later", `UPDATE ledger_entry SET created_at = created_at + interval '2 min' WHERE payout_id = '$P' AND direction = 'DEBIT'`, "B12", "$T", reconcile.Likely, "after the revocation carries the token", revoke},
		{"revoked, and posted", `UPDATE ledger_entry SET created_at = created_at + interval '2 min' WHERE payout_id = '$P'; UPDATE payout SET updated_at = updated_at + interval '2 min' WHERE payout_id = '$P'`, "B12", "$T", reconcile.Proven, "later than the revocation", revoke},
	}
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 256, Accounts: 64, Seed: 3, Open: 1})
		exec(t, w.pay, loose)
		exec(t, w.lock, loose)
		scenes := w.scenes(t, len(cases))
		for i, tc := range cases {
			exec(t, w.pay, scenes[i].Replace(tc.sql))
			exec(t, w.lock, scenes[i].Replace(tc.lock))
		}
		findings := w.run(t).Findings
		unlocked := w.run(t, func(o *reconcile.Options) { o.Lock = nil }).Findings
		for i, tc := range cases {
			account, token := scenes[i].Replace("$A"), int64(0)
			if tc.token != "" {
				token, _ = strconv.ParseInt(scenes[i].Replace(tc.token), 10, 64)
			}
			f := findingOf(t, findings, tc.class, account)
			a := f.Attribution
			if a.Token != token || a.Confidence != tc.confidence || !strings.Contains(a.Why, scenes[i].Replace(tc.why)) {
				t.Errorf("%s on PostgreSQL %d: want %d %s %q, got %+v", tc.name, major, token, tc.confidence, tc.why, a)
			}
			if token != 0 && (a.Holder == "" || a.Key != "account:"+account || a.Source != "lock_grant") {
				t.Errorf("%s: the holder is not from the journal: %+v", tc.name, a)
			}
			if tc.class == "B12" {
				continue // which needs lockdb
			}
			b := findingOf(t, unlocked, tc.class, account).Attribution
			if b.Confidence == reconcile.Proven || token != 0 && (b.Token != token || b.Holder == "" || b.Source != "payout_claim" || !strings.Contains(b.Why, "lockdb was not read")) {
				t.Errorf("%s without lockdb: %+v", tc.name, b)
			}
		}
	}
}

// scenes are accounts whose last two payouts were posted, each under a token of its
// own, with the names of the placeholders.
func (w world) scenes(t *testing.T, count int) []*strings.Replacer {
	t.Helper()
	rows, err := w.pay.Query(t.Context(), `SELECT a.account_id::text, p[1], p[2], t[1], t[2] FROM (
		SELECT account_id, array_agg(payout_id::text ORDER BY claim_token DESC) AS p, array_agg(claim_token::text ORDER BY claim_token DESC) AS t,
		       array_agg(state ORDER BY created_at DESC) AS s FROM payout WHERE claim_token IS NOT NULL GROUP BY account_id) x JOIN account a USING (account_id)
		WHERE x.s[1] = 'POSTED' AND x.s[2] = 'POSTED' AND a.fence::text = t[1] ORDER BY 1 LIMIT $1`, count)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var scenes []*strings.Replacer
	for rows.Next() {
		var account, last, before, token, earlier string
		if err := rows.Scan(&account, &last, &before, &token, &earlier); err != nil {
			t.Fatal(err)
		}
		scenes = append(scenes, strings.NewReplacer("$A", account, "$P", last, "$Q", before, "$T", token, "$U", earlier))
	}
	if rows.Err() != nil || len(scenes) < count {
		t.Fatalf("%d accounts will do: %v", len(scenes), rows.Err())
	}
	return scenes
}

func findingOf(t *testing.T, findings []reconcile.Finding, class, account string) reconcile.Finding {
	t.Helper()
	i := slices.IndexFunc(findings, func(f reconcile.Finding) bool { return f.Class == class && f.AccountID == account })
	if i < 0 {
		t.Errorf("no %s of account %s", class, account)
		return reconcile.Finding{}
	}
	return findings[i]
}

// A fence that an operator drew is nobody's grant, and whoever was revoked is named
// with who revoked it, and why.
//
// Clauses: K-8.2, K-1.6
// Mutation: take operator_log or lock_revocation out of attribution_lock.
func TestAttributionNamesOperators(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 128, Accounts: 32, Seed: 3, Open: 1})
		exec(t, w.pay, loose+"DELETE FROM account_fence_raise")
		fault, err := w.Plant(t.Context(), "B12")
		if err != nil {
			t.Fatal(err)
		}
		findings := w.run(t).Findings
		for _, f := range findings {
			a := f.Attribution
			switch f.Class {
			case "B02":
				if a.Confidence != reconcile.Likely || a.Holder != "" || a.RevokedBy != "oncall@example" || !strings.Contains(a.Why, "nobody's grant") {
					t.Errorf("PostgreSQL %d: %+v", major, a)
				}
			case "B12":
				if a.Token != fault.Token || a.Confidence != reconcile.Proven || a.RevokedBy != "oncall@example" || a.Reason != "the worker hangs" {
					t.Errorf("PostgreSQL %d: %+v", major, a)
				}
			}
		}
		if got := classes(findings); !slices.Contains(got, "B02") || !slices.Contains(got, "B12") {
			t.Errorf("found %v", got)
		}
	}
}
