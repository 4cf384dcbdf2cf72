package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// tokenAndRail are the classes of the families B and C.
func tokenAndRail() []string {
	var ids []string
	for _, c := range reconcile.Catalogue() {
		if (c.ID[0] == 'B' || c.ID[0] == 'C') && c.Reads != reconcile.ReadsPrevious {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// loose lets the superuser write what no trigger would let pass.
const loose = `DO $$ DECLARE t regclass; BEGIN
	FOR t IN SELECT c.oid::regclass FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid) LOOP
		EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
	END LOOP; END $$;`

// A finding can be read by somebody who knows nothing of the rule: it says which
// account or payout, which token, and who that was; and the first of its suspects is
// the author.
//
// Clauses: K-8.2, K-8.4
// Mutation: swap the suspects of B03, B04, B11, C06 or C09, or leave the token out of
// a text.
func TestTokenAndRailFindingsSayWho(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 900, Accounts: 160, Seed: 5, Open: 1})
		var faults []plant.Fault
		for _, variant := range plant.Variants() {
			class, _, _ := strings.Cut(variant, "-")
			if !slices.Contains(tokenAndRail(), class) {
				continue
			}
			fault, err := w.Plant(t.Context(), variant)
			if err != nil {
				t.Fatal(err)
			}
			faults = append(faults, fault)
		}
		findings := w.run(t, rules(tokenAndRail()...)).Findings
		for _, fault := range faults {
			i := slices.IndexFunc(findings, func(f reconcile.Finding) bool {
				return f.Class == fault.Class && names(f, fault) && (fault.Token == 0 || slices.Contains(f.Suspects, fault.Token))
			})
			if i < 0 {
				t.Errorf("PostgreSQL %d: nothing was found for %+v", major, fault)
				continue
			}
			f := findings[i]
			for _, id := range []string{f.AccountID, f.PayoutID} {
				// With the payout named, the account need not be.
				if id != "" && !strings.Contains(f.What, id) && !strings.Contains(f.What, f.PayoutID) {
					t.Errorf("%s does not say %s: %s", f.Class, id, f.What)
				}
			}
			if fault.Token == 0 {
				continue
			}
			if f.Suspects[0] != fault.Token {
				t.Errorf("%s suspects %v, the author is %d", f.Class, f.Suspects, fault.Token)
			}
			// Of two payouts with one reference both may be wrong: the details have the tokens.
			if said := f.What + string(f.Details); !strings.Contains(said, fmt.Sprint(fault.Token)) {
				t.Errorf("%s does not say token %d: %s", f.Class, fault.Token, f.What)
			}
		}
	}
}

// A grace is what the catalogue says: a moment before it has passed, a state is
// pending, and a moment later a break. What the order of two commits cannot prove is
// neither.
//
// Clauses: K-8.3, K-8.4
// Mutation: change the interval of C01, C04, B03, B11 or B16 in rules, or in Class.Grace.
func TestGraces(t *testing.T) {
	t.Parallel()
	for class, shift := range map[string]string{
		"B03": "UPDATE ledger_entry l SET created_at = h.created_at + %[1]s FROM ledger_entry h JOIN payout p USING (payout_id) WHERE l.payout_id = '%[2]s' AND h.account_id = '%[3]s' AND h.fence = p.claim_token AND h.fence = (SELECT fence FROM account WHERE account_id = '%[3]s')",
		"B11": "UPDATE rail_submission l SET submitted_at = h.submitted_at + %[1]s FROM rail_submission h WHERE l.payout_id = '%[2]s' AND h.presented_token = (SELECT fence FROM account WHERE account_id = '%[3]s')",
		"B16": "UPDATE lock_entry SET acquired_at = now() - %[1]s WHERE lock_key = 'account:%[3]s'",
		"C01": "UPDATE rail_submission SET resolved_at = now() - %[1]s WHERE payout_id = '%[2]s'",
		"C04": "UPDATE rail_submission SET submitted_at = now() - %[1]s WHERE payout_id = '%[2]s'",
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			w := healthy(t, pgtest.Majors()[0])
			fault, err := w.Plant(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, w.pay, loose)
			exec(t, w.lock, loose)
			found := w.run(t, rules(class)).Findings
			if len(found) != 1 {
				t.Fatalf("%d findings for %+v", len(found), fault)
			}
			conn := w.pay
			if class == "B16" {
				conn = w.lock
			}
			grace := graceOf(t, class)
			for _, after := range []time.Duration{grace - 3*time.Second, grace + 3*time.Second} {
				exec(t, conn, fmt.Sprintf(shift, fmt.Sprintf("interval '%d seconds'", int(after.Seconds())), found[0].PayoutID, found[0].AccountID))
				report := w.run(t, rules(class))
				// What is in flight in the world is pending too.
				pending := slices.ContainsFunc(report.Pending, func(f reconcile.Finding) bool { return f.ID == found[0].ID })
				broken := after > grace
				if (len(report.Findings) == 1) != broken || pending != (!broken && class != "B03" && class != "B11") {
					t.Errorf("%s after %s: %v, pending %v", class, after, classes(report.Findings), classes(report.Pending))
				}
			}
		})
	}
}

func graceOf(t *testing.T, class string) time.Duration {
	t.Helper()
	for _, c := range reconcile.Catalogue() {
		if c.ID == class {
			if c.Grace == 0 {
				t.Fatalf("%s has no grace", class)
			}
			return c.Grace
		}
	}
	t.Fatalf("there is no class %s", class)
	return 0
}

// What only looks like a break of the families B, and what no plant has.
//
// Clauses: K-3.2, K-4.7, K-4.12, K-7.2, K-8.3
// Mutation: leave out B02's unfenced, the copied grants or the empty journal of walk_lock.sql, FENCED of
// walk_pay.sql, or isfinite.
func TestFenceEdges(t *testing.T) {
	t.Parallel()
	const (
		account = "SELECT account_id FROM account WHERE fence > 0 ORDER BY account_id LIMIT 1"
		payout  = "SELECT payout_id FROM ledger_entry l JOIN account a USING (account_id) WHERE l.fence = a.fence AND a.account_id = (" + account + ")"
		noCheck = "ALTER TABLE ledger_entry DROP CONSTRAINT ledger_fence_ck;"
		unknown = "DELETE FROM lock_grant WHERE fencing_token = (SELECT max(fencing_token) FROM lock_grant WHERE ended = 'released')"
		revoked = "INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('report', 'w', "
		moved   = "UPDATE flyway_schema_history SET installed_on = now() AT TIME ZONE 'UTC' - interval '%s' WHERE version = '7'"
	)
	for name, tc := range map[string]struct {
		pay, lock string
		want      []string
	}{
		"healthy": {},
		// The leg that the fence is from may be the one without a token.
		"a leg without a token is not a fence without a leg": {
			pay:  noCheck + "UPDATE ledger_entry SET fence = 0 WHERE payout_id = (" + payout + ")",
			want: []string{"B15"},
		},
		"no token at all": {
			pay:  noCheck + "ALTER TABLE ledger_entry ALTER fence DROP NOT NULL; UPDATE ledger_entry SET fence = NULL WHERE payout_id = (" + payout + ")",
			want: []string{"B15"},
		},
		"a clearing account has no fence":     {pay: "UPDATE account SET updated_at = now() WHERE account_id IN (SELECT account_id FROM clearing_account)"},
		"a floor at the last token":           {pay: "UPDATE fence_floor SET floor_token = $LAST"},
		"a floor above the last token":        {pay: "UPDATE fence_floor SET floor_token = $LAST + 1", want: []string{"B08", "B09"}},
		"a fast-forward finished, its floors": {pay: "UPDATE fence_floor SET floor_token = 5000000000", lock: "ALTER SEQUENCE fencing_token_seq RESTART WITH 5000000001"},
		"a revocation of the last token":      {lock: revoked + "$LAST, 'op', 'why')"},
		"a revocation above the last token":   {lock: revoked + "$LAST + 1, 'op', 'why')", want: []string{"B18"}},
		"a forged token that was fenced out": {
			pay: "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) SELECT gen_random_uuid(), payout_id, idempotency_key, $LAST + 1, 'FENCED', now() FROM payout WHERE payout_id = (" + payout + ")",
		},
		"an unknown token":                          {lock: unknown, want: []string{"B06"}},
		"an unknown token of before the journal":    {lock: unknown + ";" + fmt.Sprintf(moved, "0 hours") + "; UPDATE lock_grant SET ended = NULL, ended_at = NULL; DELETE FROM lock_revocation"},
		"a journal as old as the schema":            {lock: unknown + "; UPDATE flyway_schema_history SET installed_on = now() AT TIME ZONE 'UTC'; UPDATE lock_grant SET ended = NULL, ended_at = NULL; DELETE FROM lock_revocation", want: []string{"B06"}},
		"a journal that begins with what ended":     {lock: unknown + ";" + fmt.Sprintf(moved, "0 hours"), want: []string{"B06"}},
		"a journal that was begun long ago":         {lock: unknown + ";" + fmt.Sprintf(moved, "10 years") + "; UPDATE lock_grant SET ended = NULL, ended_at = NULL; DELETE FROM lock_revocation", want: []string{"B06"}},
		"moments that are none keep nothing unread": {pay: "UPDATE ledger_entry SET created_at = 'infinity' WHERE payout_id = (" + payout + "); UPDATE account SET updated_at = '-infinity'", lock: "UPDATE lock_entry SET expires_at = 'infinity'"},
		"a fence that nobody drew, on two accounts": {pay: "UPDATE account SET fence = 3 WHERE account_id IN (SELECT account_id FROM account WHERE fence > 0 ORDER BY fence LIMIT 2)", want: []string{"B01", "B01"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := healthy(t, pgtest.Majors()[0])
			exec(t, w.pay, loose)
			exec(t, w.lock, loose)
			var last int64
			if err := w.lock.QueryRow(t.Context(), "SELECT last_value FROM fencing_token_seq").Scan(&last); err != nil {
				t.Fatal(err)
			}
			withLast := strings.NewReplacer("$LAST", fmt.Sprint(last))
			exec(t, w.pay, withLast.Replace(tc.pay))
			exec(t, w.lock, withLast.Replace(tc.lock))
			report := w.run(t, rules(tokenAndRail()...))
			if diff := cmp.Diff(append([]string{}, tc.want...), classes(report.Findings)); diff != "" || len(report.Missing) > 0 {
				t.Errorf("findings (-want +got):\n%s%+v\nmissing %v", diff, report.Findings, report.Missing)
			}
		})
	}
}

// A run that is narrowed to an account finds that account's breaks, and no other's.
//
// Clauses: K-8.3
// Mutation: leave @accounts or @currency out of a file of rules, or out of walkTokens.
func TestFenceScope(t *testing.T) {
	t.Parallel()
	w := healthyOf(t, pgtest.Majors()[0], plant.Params{Payouts: 900, Accounts: 160, Seed: 5, Open: 1})
	perAccount := map[string][]string{}
	for _, variant := range []string{"B01", "B02", "B03", "B04", "B06", "B07", "B08", "B09", "B10", "B11", "B12", "B13", "B14", "B16", "B19", "C01", "C02", "C03", "C04", "C07", "C08", "C10", "C11", "C12", "C13"} {
		if _, err := w.Plant(t.Context(), variant); err != nil {
			t.Fatal(err)
		}
	}
	all := w.run(t, rules(tokenAndRail()...)).Findings
	for _, f := range all {
		perAccount[f.AccountID] = append(perAccount[f.AccountID], f.ID)
	}
	if len(perAccount) < 25 || perAccount[""] != nil {
		t.Fatalf("%d accounts are broken: %v", len(perAccount), perAccount)
	}
	for account, want := range perAccount {
		got := idsOf(w.run(t, rules(tokenAndRail()...), func(o *reconcile.Options) { o.Scope.Accounts = []string{account} }).Findings)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("account %s (-want +got):\n%s", account, diff)
		}
	}
	for _, currency := range []string{"EUR", "USD", "GBP"} {
		var want []string
		for _, f := range all {
			// A revocation is of a lock, which has no currency.
			if f.Currency == currency || f.Currency == "" {
				want = append(want, f.ID)
			}
		}
		got := idsOf(w.run(t, rules(tokenAndRail()...), func(o *reconcile.Options) { o.Scope.Currencies = []string{currency} }).Findings)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", currency, diff)
		}
	}
}

func idsOf(findings []reconcile.Finding) []string {
	var ids []string
	for _, f := range findings {
		ids = append(ids, f.ID)
	}
	return ids
}
