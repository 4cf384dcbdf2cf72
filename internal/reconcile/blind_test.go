package reconcile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// A rule that found nothing among no rows has found nothing out.
//
// Clauses: K-8.5
// Mutation: leave expectRows out.
func TestNothingToCheckIsNotClean(t *testing.T) {
	t.Parallel()
	unknown := "00000000-0000-4000-8000-00000000dead"
	for name, tc := range map[string]struct {
		sql    string
		scope  reconcile.Scope
		reason string
	}{
		"no accounts": {`SET session_replication_role = replica; ALTER TABLE account DISABLE TRIGGER account_kept; DELETE FROM account;
			ALTER TABLE account ENABLE ALWAYS TRIGGER account_kept; ALTER TABLE opening_balance DISABLE TRIGGER ALL; DELETE FROM opening_balance; ALTER TABLE opening_balance ENABLE TRIGGER ALL;
			ALTER TABLE opening_balance ENABLE ALWAYS TRIGGER opening_balance_append_only`, reconcile.Scope{}, "paydb has no accounts"},
		"no such account":       {"", reconcile.Scope{Accounts: []string{unknown}}, "no account is in scope"},
		"one account of two":    {"", reconcile.Scope{Accounts: []string{unknown, payer}}, "1 of the 2 accounts in scope do not exist, or not in the currencies asked for"},
		"one currency of two":   {"", reconcile.Scope{Currencies: []string{"XTS", "EUR"}}, "no account in scope holds XTS"},
		"a rule without a list": {"", reconcile.Scope{Rules: []string{"A01", "S01"}}, "S01 was not checked: it compares with a rail statement, and none was given"},
		"a rule without a seal": {"", reconcile.Scope{Rules: []string{"D10"}}, "D10 was not checked: it compares with an earlier run, and none was given"},
		"no account in it":      {"", reconcile.Scope{Currencies: []string{"XTS"}}, "no account is in scope"},
		"claims and no journal": {"INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES ('b0000000-0000-0000-0000-000000000001', '" + payer + "', 1, 'EUR', 'k'); UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1", reconcile.Scope{}, "the journal of grants is empty, and payouts were claimed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := seeded(t, major)
				exec(t, w.pay, tc.sql)
				report := w.run(t, func(o *reconcile.Options) { o.Scope = tc.scope })
				if report.Outcome == reconcile.Clean || report.Complete || !missing(report, tc.reason) {
					t.Errorf("PostgreSQL %d: %s, complete %t, %+v", major, report.Outcome, report.Complete, report.Missing)
				}
			}
		})
	}
}

func missing(r reconcile.Report, reason string) bool {
	return slices.ContainsFunc(r.Missing, func(m reconcile.Missing) bool { return strings.Contains(m.Reason, reason) })
}

// What may not be read is named, and the run is not CLEAN; what else was found is.
//
// Clauses: K-8.1, K-12.1
// Mutation: take the table out of tables, or drop the error of a family.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	exec(t, w.pay, drift)
	for table, database := range map[string]string{
		"account": "paydb", "payout": "paydb", "ledger_entry": "paydb", "rail_submission": "paydb", "rail_high_water": "paydb",
		"clearing_account": "paydb", "opening_balance": "paydb", "payout_claim": "paydb", "payout_resolution": "paydb",
		"account_fence_raise": "paydb", "fence_floor": "paydb", "pay_gate": "paydb",
		"lock_session": "lockdb", "lock_entry": "lockdb", "lock_revocation": "lockdb", "lock_grant": "lockdb", "lock_gate": "lockdb",
		"operator_log": "lockdb", "fencing_token_seq": "lockdb",
	} {
		conn := map[string]*pgx.Conn{"paydb": w.pay, "lockdb": w.lock}[database]
		exec(t, conn, "REVOKE ALL ON "+table+" FROM dlock_auditor")
		checkBlind(t, w.run(t), database+"."+table, table)
		exec(t, conn, "GRANT SELECT ON "+table+" TO dlock_auditor")
		if table == "fencing_token_seq" {
			continue // no rows to hide
		}
		exec(t, conn, "ALTER TABLE "+table+" ENABLE ROW LEVEL SECURITY")
		checkBlind(t, w.run(t), database+"."+table, table)
		exec(t, conn, "ALTER TABLE "+table+" DISABLE ROW LEVEL SECURITY")
	}
	if report := w.run(t); !report.Complete {
		t.Errorf("with all rights back: %+v", report.Missing)
	}
}

// Hidden rows are an error of the rule that reads them, also where the rights are not
// looked at: in a run of some rules.
//
// Clauses: K-8.1, K-12.1
// Mutation: leave SET LOCAL row_security = off out of settings, or the denied causes out
// of results.
func TestHiddenRowsOfOneRule(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.pay, "ALTER TABLE ledger_entry ENABLE ROW LEVEL SECURITY")
		report := w.run(t, rules("A01"))
		if report.Outcome != reconcile.Incomplete || !missing(report, "row-level security") || !slices.Equal(classes(report.Findings), []string{"D08"}) {
			t.Errorf("PostgreSQL %d: %s, %v, %+v", major, report.Outcome, classes(report.Findings), report.Missing)
		}
	}
}

func checkBlind(t *testing.T, r reconcile.Report, subject, table string) {
	t.Helper()
	if r.Outcome == reconcile.Clean || r.Complete || !missing(r, table) {
		t.Errorf("without %s: %s, complete %t, %+v", table, r.Outcome, r.Complete, r.Missing)
	}
	// The drift needs these four; without any other it is found.
	if !slices.Contains([]string{"account", "payout", "ledger_entry", "opening_balance"}, table) && r.Outcome != reconcile.Breaks {
		t.Errorf("without %s the drift is not found: %s", table, r.Outcome)
	}
	blind := []string{}
	for _, f := range r.Findings {
		if f.Class == "D08" {
			blind = append(blind, f.Subject)
		}
	}
	if !slices.Contains(blind, subject) {
		t.Errorf("without %s D08 names %q", table, blind)
	}
}

// Without lockdb its classes are skipped and said to be; the rest is checked.
//
// Clauses: K-8.3
// Mutation: leave noLock's classes out of Missing.
func TestWithoutLockdb(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		for name, change := range map[string]func(*reconcile.Options){
			"not given": func(o *reconcile.Options) { o.Lock = nil },
			"no answer": func(o *reconcile.Options) { o.Lock.Database = "nobody_made_this" },
		} {
			report := w.run(t, change)
			if report.Outcome != reconcile.Incomplete || report.Lock != nil || !missing(report, "lockdb was not read") {
				t.Errorf("%s: %s, %+v", name, report.Outcome, report.Missing)
			}
			for _, c := range report.Coverage {
				if needs := c.Class == "D02" || c.Class == "D06"; needs != (c.Skipped != "") && (needs || c.Class[0] == 'A' && c.Class != "A03") {
					t.Errorf("%s: %s skipped: %q", name, c.Class, c.Skipped)
				}
			}
			for _, m := range report.Missing {
				if strings.Contains(m.Reason, w.dbs.Lock.Config(t, "t_auditor").Password) {
					t.Errorf("%s: a password is told: %s", name, m.Reason)
				}
			}
		}
	}
}

// A missing guard makes a run incomplete and is a finding: beside the findings it is one
// line, and what no finding tells is told whole.
//
// Mutation: return r.Missing from Unchecked.
func TestUncheckedIsToldOnce(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	exec(t, w.pay, "ALTER TABLE payout DISABLE TRIGGER payout_guard; ALTER TABLE account DISABLE TRIGGER account_guard; REVOKE ALL ON rail_high_water FROM dlock_auditor")
	report := w.run(t)
	told := map[string]int{}
	for _, m := range report.Unchecked() {
		told[m.Class]++
		for _, f := range report.Findings {
			if f.Class == "D05" && f.What == m.Reason {
				t.Errorf("told twice: %s", m.Reason)
			}
		}
	}
	if n := len(report.Missing); told["D05"] != 1 || told["B10"] != 1 || n <= len(report.Unchecked()) {
		t.Errorf("told %v of %d gaps", told, n)
	}
}
