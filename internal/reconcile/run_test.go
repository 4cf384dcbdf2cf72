package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

const (
	payer    = "00000000-0000-4000-8000-000000000001" // EUR 1,000,000 by the seed
	clearing = "00000000-0000-4000-9000-000000000000" // EUR
	// drift gives an account a cent that no leg explains.
	drift = "SET session_replication_role = replica; UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = '" + payer + "'"
)

// seeded is a world in which nothing has happened yet.
func seeded(t *testing.T, major int) world {
	t.Helper()
	w := world{dbs: pgtest.Migrated(t, major)}
	w.pay, w.lock = w.dbs.Pay.Conn(t, "super"), w.dbs.Lock.Conn(t, "super")
	return w
}

func workers(n int) func(*reconcile.Options) {
	return func(o *reconcile.Options) { o.Workers = n }
}

func rules(ids ...string) func(*reconcile.Options) {
	return func(o *reconcile.Options) { o.Scope.Rules = ids }
}

// All workers see one moment, and lockdb is read after it: what commits once the
// snapshots are taken is in none of them.
//
// Clauses: K-8.1, K-8.3
// Mutation: read committed instead of repeatable read, or leave SET TRANSACTION
// SNAPSHOT out.
func TestWorkersShareOneSnapshot(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		report := w.run(t, workers(4), during(func() { exec(t, w.pay, drift) }))
		if report.Outcome != reconcile.Clean {
			t.Errorf("PostgreSQL %d: what came later was seen: %s %v", major, report.Outcome, classes(report.Findings))
		}
		if !report.Lock.At.After(report.Pay.At) {
			t.Errorf("lockdb was read at %s, before paydb at %s", report.Lock.At, report.Pay.At)
		}
	}
}

// Only what a second look finds again is reported.
//
// Clauses: K-8.3
// Mutation: leave confirm out of Run.
func TestOnlyWhatPersistsIsReported(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.pay, drift)
		report := w.run(t)
		if got := classes(report.Findings); report.Outcome != reconcile.Breaks || !slices.Equal(got, []string{"A01"}) || report.Findings[0].Unconfirmed {
			t.Errorf("PostgreSQL %d: what persists: %s %+v", major, report.Outcome, report.Findings)
		}
		report = w.run(t, during(func() { exec(t, w.pay, strings.Replace(drift, "+ 1", "- 1", 1)) }))
		if report.Outcome != reconcile.Clean {
			t.Errorf("PostgreSQL %d: what is gone by the second look: %s %v", major, report.Outcome, classes(report.Findings))
		}
	}
}

// What another payer's payout has put on an account is found again too, though the second
// look begins with the account's own payouts.
//
// Clauses: K-8.3
// Mutation: return confirmed(sure) in again, whatever was not found in the same words.
func TestSecondLookAtForeignLegs(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthy(t, major)
		exec(t, w.pay, loose)
		exec(t, w.pay, `INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
			VALUES (gen_random_uuid(), gen_random_uuid(), '`+payer+`', 'CREDIT', 7, 1000000000)`)
		report := w.run(t, rules("A01", "B01"))
		if got := classes(report.Findings); !slices.Equal(got, []string{"B01", "A01"}) || report.Findings[0].Unconfirmed || report.Findings[1].AmountMinor != "-7" {
			t.Errorf("PostgreSQL %d: %s %+v", major, report.Outcome, report.Findings)
		}
	}
}

// The balance rule in numbers, in the words of its details; sums that exceed 64 bits
// are summed, and totals never across currencies.
//
// Clauses: K-8.1, K-4.7, K-4.8
// Mutation: swap CREDIT and DEBIT, leave the opening out, sum in BIGINT, or leave the
// currency out of totals' key.
func TestBalancesAndTotals(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.pay, drift)
		exec(t, w.pay, `SET session_replication_role = replica;
			INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
			SELECT gen_random_uuid(), gen_random_uuid(), '`+clearing+`', 'CREDIT', 9223372036854775807, 7 FROM generate_series(1, 2);
			UPDATE account SET balance_minor = balance_minor + 5 WHERE currency = 'USD' AND account_id::text LIKE '00000000-0000-4000-8%'`)
		report := w.run(t, rules("A01"))
		want := []reconcile.Total{
			{Class: "A01", Currency: "EUR", Findings: 2, AmountMinor: "18446744073709551615"},
			{Class: "A01", Currency: "USD", Findings: 6, AmountMinor: "30"},
		}
		if diff := cmp.Diff(want, report.Totals); diff != "" {
			t.Errorf("totals on PostgreSQL %d (-want +got):\n%s", major, diff)
		}
		for _, f := range report.Findings {
			if f.AccountID == clearing && (f.AmountMinor != "-18446744073709551614" || !strings.Contains(f.What, "the balance is 0 and should be 18446744073709551614: opening 0, credits 18446744073709551614, debits 0")) {
				t.Errorf("PostgreSQL %d: %s: %s", major, f.AmountMinor, f.What)
			}
		}
	}
}

// A time that no calendar has, which a service may write, hides no finding.
//
// Clauses: K-8.1
// Mutation: leave an isfinite out of rules, or the filter out of pipeline.sql.
func TestInfiniteTimesHideNothing(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	exec(t, w.pay, loose)
	exec(t, w.pay, `CREATE TEMP TABLE one AS SELECT p.payout_id, p.account_id FROM payout p WHERE p.state = 'POSTED' ORDER BY p.claim_token LIMIT 1;
		UPDATE account SET balance_minor = balance_minor + 1, updated_at = 'infinity' WHERE account_id = (SELECT account_id FROM one);
		UPDATE ledger_entry SET created_at = 'infinity', amount_minor = amount_minor + 1 WHERE payout_id = (SELECT payout_id FROM one);
		UPDATE ledger_entry SET account_id = gen_random_uuid(), created_at = '-infinity' WHERE entry_id = (SELECT entry_id FROM ledger_entry WHERE payout_id <> (SELECT payout_id FROM one) AND direction = 'CREDIT' ORDER BY fence LIMIT 1);
		UPDATE payout SET created_at = '-infinity', updated_at = 'infinity' WHERE state NOT IN ('POSTED', 'FAILED', 'ABANDONED');
		UPDATE payout SET currency = 'XTS', created_at = '-infinity' WHERE payout_id = (SELECT payout_id FROM payout WHERE state = 'FAILED' LIMIT 1);
		UPDATE pay_gate SET timeline_id = 99, closed_by = 'x', closed_reason = 'y', closed_at = 'infinity'`)
	exec(t, w.lock, loose)
	exec(t, w.lock, "UPDATE lock_entry SET acquired_at = '-infinity'; UPDATE lock_gate SET timeline_id = 99, closed_by = 'x', closed_reason = 'y', closed_at = 'infinity'; UPDATE lock_revocation SET revoked_at = 'infinity'")
	report := w.run(t)
	for _, m := range report.Missing {
		if m.Class != "D05" { // the triggers that loose took out
			t.Errorf("not checked: %s %s", m.Class, m.Reason)
		}
	}
	for _, class := range []string{"A01", "A07", "A14", "A16", "A20", "D03"} {
		if !slices.Contains(classes(report.Findings), class) {
			t.Errorf("%s was not found among %v", class, classes(report.Findings))
		}
	}
}

// An account without an opening is neither clean nor a break, and hides none.
//
// Clauses: K-4.8, K-8.5
// Mutation: take A02 out of breaks' exceptions, or leave it out of Complete.
func TestUnanchoredIsNotClean(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.pay, "INSERT INTO account (account_id, currency) VALUES ('00000000-0000-4000-8000-00000000cafe', 'EUR')")
		report := w.run(t)
		if report.Outcome != reconcile.Incomplete || report.Complete || report.Unanchored != 1 {
			t.Errorf("PostgreSQL %d: %s, complete %t, %d unanchored", major, report.Outcome, report.Complete, report.Unanchored)
		}
		exec(t, w.pay, drift)
		if report = w.run(t); report.Outcome != reconcile.Breaks || report.Complete {
			t.Errorf("PostgreSQL %d with a drift too: %s, complete %t", major, report.Outcome, report.Complete)
		}
	}
}

// A run that is cancelled ends, though its query waits for a lock, and returns what it
// has: INCOMPLETE, with nothing left running on the server.
//
// Clauses: K-8.1
// Mutation: leave BuildContextWatcherHandler out of forReading, or the deadline out of Run.
func TestCutShort(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(context.CancelFunc, time.Duration) func(*reconcile.Options)
		// limits are tried until one lets the others be read: how long that takes is the
		// machine's business.
		limits []time.Duration
		reason string
	}{
		"cancelled": {func(cancel context.CancelFunc, _ time.Duration) func(*reconcile.Options) {
			return func(o *reconcile.Options) {
				o.Progress = func(p reconcile.Progress) {
					if p.Total > 0 && p.Done == p.Total-1 { // all that can be read has been
						cancel()
					}
				}
			}
		}, []time.Duration{0}, "it was cancelled"},
		"time limit": {func(_ context.CancelFunc, limit time.Duration) func(*reconcile.Options) {
			return func(o *reconcile.Options) { o.MaxDuration = limit }
		}, []time.Duration{8 * time.Second, 30 * time.Second, 2 * time.Minute}, "the run's time limit has passed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := seeded(t, major)
				exec(t, w.pay, drift)
				// One family waits for it, and the others are read by the connections that are left.
				exec(t, w.pay, "BEGIN; LOCK TABLE payout_resolution IN ACCESS EXCLUSIVE MODE")
				kept := false
				for _, limit := range tc.limits {
					ctx, cancel := context.WithCancel(t.Context())
					report := w.runWith(ctx, t, workers(3), rules("A01", "C02"), tc.change(cancel, limit))
					cancel()
					if report.Outcome != reconcile.Incomplete || report.Complete || !missing(report, tc.reason) {
						t.Errorf("PostgreSQL %d: %s, complete %t, %+v", major, report.Outcome, report.Complete, report.Missing)
					}
					awaitQuiet(t, w)
					if kept = slices.ContainsFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == "A01" && f.Unconfirmed }); kept {
						break
					}
				}
				if !kept {
					t.Errorf("PostgreSQL %d: A01 was not kept", major)
				}
			}
		})
	}
}

// awaitQuiet waits until the server has no session of the auditor's. It looks from
// outside: within a transaction pg_stat_activity stands still.
func awaitQuiet(t *testing.T, w world) {
	t.Helper()
	conn := w.dbs.Pay.Conn(t, "super")
	pgtest.Eventually(t, "no session is left on the server", func(ctx context.Context) (quiet bool, err error) {
		err = conn.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 't_auditor' AND datname = current_database())").Scan(&quiet)
		return quiet, err
	})
}

// Where too few connections may share the snapshot the run makes do, and says so.
//
// Clauses: K-12.3
// Mutation: fail in join, or leave renew out of confirm.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.lock, fmt.Sprintf("ALTER DATABASE %q CONNECTION LIMIT 3", w.dbs.Lock.Name))
		exec(t, w.pay, fmt.Sprintf("ALTER DATABASE %q CONNECTION LIMIT 3", w.dbs.Pay.Name))
		report := w.run(t, workers(4)) // the superuser's is counted too
		if report.Outcome != reconcile.Clean || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "2 of 4 connections") {
			t.Errorf("PostgreSQL %d: %s %q %+v", major, report.Outcome, report.Notes, report.Missing)
		}
	}
}

// A run cannot write, whoever it logs in as.
//
// Clauses: K-8.5
// Mutation: take AccessMode out of readOnly.
func TestRunCannotWrite(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		err := reconcile.WriteInSnapshot(t.Context(), w.dbs.Pay.Config(t, "super"), "CREATE TABLE written ()")
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "25006" {
			t.Errorf("a write on PostgreSQL %d: %v, want it refused", major, err)
		}
	}
}

// A run compiles nothing, and has memory for its joins, however little others have;
// what a server gives beyond that is left.
//
// Clauses: K-8.1
// Mutation: leave forScans out of settings, or its condition.
func TestReadsWithMemoryForJoins(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		for given, want := range map[string]string{"1MB": "32MB", "100MB": "100MB"} {
			config := w.dbs.Pay.Config(t, "super")
			config.RuntimeParams["work_mem"], config.RuntimeParams["jit"] = given, "on"
			err := reconcile.WriteInSnapshot(t.Context(), config, fmt.Sprintf(
				"DO $$ BEGIN ASSERT current_setting('work_mem') = '%s' AND current_setting('jit') = 'off', current_setting('work_mem'); END $$", want))
			if err != nil {
				t.Errorf("work_mem where PostgreSQL %d gives %s: %v, want %s", major, given, err, want)
			}
		}
	}
}

// A scope names things that are; what it leaves out is not looked at.
//
// Clauses: K-8.4
// Mutation: leave @accounts or @currency out of accounts.sql, or the scope out of add.
func TestScope(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	exec(t, w.pay, drift)
	other := "00000000-0000-4000-8000-000000000002"
	for name, tc := range map[string]struct {
		scope reconcile.Scope
		want  reconcile.Outcome
	}{
		"its account":      {reconcile.Scope{Accounts: []string{strings.ToUpper(payer)}}, reconcile.Breaks},
		"another account":  {reconcile.Scope{Accounts: []string{other}}, reconcile.Clean},
		"an account twice": {reconcile.Scope{Accounts: []string{other, strings.ToUpper(other)}}, reconcile.Clean},
		"its currency":     {reconcile.Scope{Currencies: []string{"EUR"}}, reconcile.Breaks},
		"another currency": {reconcile.Scope{Currencies: []string{"GBP", "USD"}}, reconcile.Clean},
		"its rule":         {reconcile.Scope{Rules: []string{"balance_drift"}}, reconcile.Breaks},
		"another rule":     {reconcile.Scope{Rules: []string{"a05", "B01"}}, reconcile.Clean},
	} {
		report := w.run(t, func(o *reconcile.Options) { o.Scope = tc.scope })
		if report.Outcome != tc.want {
			t.Errorf("%s: %s %v %+v", name, report.Outcome, classes(report.Findings), report.Missing)
		}
	}
	for field, scope := range map[string]reconcile.Scope{
		"account": {Accounts: []string{"4711"}}, "currency": {Currencies: []string{"eur"}}, "rule": {Rules: []string{"A99"}},
	} {
		o := w.options(t)
		o.Scope = scope
		_, err := reconcile.Run(t.Context(), o)
		if wrong, ok := errors.AsType[*reconcile.ScopeError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v, want it refused", field, err)
		}
	}
}

// Progress goes up to its total, one call at a time, finding ids stay the same, and times
// are as docs/json.md says.
//
// Clauses: K-8.4
// Mutation: leave the lock out of say, or put the amount into findingID.
func TestProgressAndStableIDs(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	exec(t, w.pay, drift)
	var last reconcile.Progress
	first := w.run(t, func(o *reconcile.Options) {
		o.Progress = func(p reconcile.Progress) {
			if p.Done < last.Done || p.Elapsed < last.Elapsed || p.Family == "" {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		}
	})
	if last.Done != last.Total || last.Done == 0 || last.Rows != 32+12 && last.Rows < 32 {
		t.Errorf("at the end: %+v", last)
	}
	exec(t, w.pay, drift)
	second := w.run(t)
	if first.Findings[0].ID != second.Findings[0].ID || first.Findings[0].AmountMinor == second.Findings[0].AmountMinor {
		t.Errorf("%s of %s, then %s of %s", first.Findings[0].ID, first.Findings[0].AmountMinor, second.Findings[0].ID, second.Findings[0].AmountMinor)
	}
	if first.RunID == second.RunID {
		t.Error("two runs have one id")
	}
	for what, at := range map[string]time.Time{"began": first.StartedAt, "ended": first.FinishedAt, "paydb": first.Pay.At, "lockdb": first.Lock.At} {
		if at.Nanosecond()%1000 != 0 || at.Location() != time.UTC {
			t.Errorf("%s at %s, want microseconds of UTC", what, at)
		}
	}
}

// Every statement fits the migrated schema, and the auditor's rights.
//
// Clauses: K-12.1
// Mutation: name a column that is none.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	queries, err := reconcile.FamilyQueries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, major := range pgtest.Majors() {
		dbs := pgtest.Migrated(t, major)
		pay, lock := dbs.Pay.Conn(t, "t_auditor"), dbs.Lock.Conn(t, "t_auditor")
		for _, q := range queries {
			conn := pay
			if q.Lock {
				conn = lock
			}
			if _, err := conn.Prepare(t.Context(), q.Name, q.Text); err != nil {
				t.Errorf("%s on PostgreSQL %d: %v", q.Name, major, err)
			}
		}
	}
}
