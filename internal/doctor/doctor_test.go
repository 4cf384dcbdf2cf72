package doctor_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// healthy is a pair of databases with what an administrator adds to the
// migrations: the time limit of lockapp's login (K-2.11).
func healthy(t *testing.T, major int) pgtest.Databases {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	name := pgx.Identifier{dbs.Lock.Name}.Sanitize()
	exec(t, dbs.Lock, "ALTER ROLE t_lockapp IN DATABASE "+name+" SET idle_in_transaction_session_timeout = '30s'")
	return dbs
}

func exec(t *testing.T, db pgtest.DB, sql string) {
	t.Helper()
	if _, err := db.Conn(t, "super").PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func target(t *testing.T, dbs pgtest.Databases, login string) doctor.Target {
	t.Helper()
	return doctor.Target{Lock: dbs.Lock.Config(t, login), Pay: dbs.Pay.Config(t, login)}
}

func run(t *testing.T, target doctor.Target) doctor.Report {
	t.Helper()
	report, err := doctor.Run(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// notOK are the checks that are not ok, with their status and what they saw.
func notOK(report doctor.Report) map[string]string {
	found := map[string]string{}
	for _, r := range report.Results {
		if r.Status != doctor.OK {
			found[r.ID] = string(r.Status) + ": " + r.Saw
		}
	}
	return found
}

// Migrated databases are whole, for whoever reads them: no reader lacks a right
// that a check needs.
//
// Clauses: K-12.1, K-1.1, K-1.5
// Mutation: take a grant out of V9 or V18, or a row out of lockGrants or payGrants.
func TestHealthyDatabasesPass(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := healthy(t, major)
			for login, want := range map[string]map[string]string{
				"super":      {"lockdb_login": "warn: postgres is one", "paydb_login": "warn: postgres is one"},
				"t_operator": {},
				"t_auditor":  {},
				"t_owner":    {},
			} {
				report := run(t, target(t, dbs, login))
				if diff := cmp.Diff(want, notOK(report)); diff != "" {
					t.Errorf("as %s (-want +got):\n%s", login, diff)
				}
				if !report.Complete || report.OK+report.Warn != len(doctor.Checks()) || len(report.Reached) != 2 {
					t.Errorf("as %s: complete %v, %d ok, %d warn of %d, reached %v", login, report.Complete, report.OK, report.Warn, len(doctor.Checks()), report.Reached)
				}
			}
		})
	}
}

// What a login may not read is unknown, with the grant that it needs; the fix,
// run word for word, makes it known.
//
// Mutation: let on() return ok for an error.
func TestMissingRightIsUnknown(t *testing.T) {
	t.Parallel()
	dbs := healthy(t, 16)
	for _, db := range []pgtest.DB{dbs.Lock, dbs.Pay} {
		exec(t, db, "REVOKE SELECT ON flyway_schema_history, peer_instance FROM dlock_auditor")
	}
	exec(t, dbs.Lock, "REVOKE SELECT ON lock_gate, lock_grant, fencing_token_seq FROM dlock_auditor")
	exec(t, dbs.Pay, "REVOKE SELECT ON pay_gate, fence_floor FROM dlock_auditor")
	report := run(t, target(t, dbs, "t_auditor"))
	var unknown []string
	for _, r := range report.Results {
		if r.Status != doctor.Unknown {
			continue
		}
		unknown = append(unknown, r.ID)
		if !strings.Contains(r.Saw, "permission denied") || r.Fix == nil || r.Fix.Run != "GRANT dlock_auditor TO t_auditor" {
			t.Errorf("%s saw %q, fix %+v", r.ID, r.Saw, r.Fix)
		}
	}
	slices.Sort(unknown)
	want := []string{
		"lockdb_gate", "lockdb_headroom", "lockdb_history", "lockdb_journal_default", "lockdb_journal_partition", "lockdb_peer", "lockdb_schema", "lockdb_tokens_ahead",
		"paydb_floors", "paydb_gate", "paydb_history", "paydb_peer", "paydb_schema",
	}
	if diff := cmp.Diff(want, unknown); diff != "" || report.Complete {
		t.Errorf("complete %v, unknown checks (-want +got):\n%s", report.Complete, diff)
	}
	if report.Unknown != len(want) {
		t.Errorf("%d unknown, want %d", report.Unknown, len(want))
	}
}

// A database that is not configured, does not answer or is empty: its checks are
// unknown, what is known of the other is said, and no password is shown.
//
// Clauses: K-6.1
// Mutation: let unread return ok.
func TestMissingDatabase(t *testing.T) {
	t.Parallel()
	dbs := healthy(t, 16)
	none := run(t, doctor.Target{})
	databases := slices.DeleteFunc(doctor.Checks(), func(c doctor.Check) bool { return c.Database == doctor.Services })
	if none.Unknown != len(databases) || none.Complete || len(none.Reached) != 0 {
		t.Errorf("nothing configured: %d unknown of %d, complete %v, reached %v", none.Unknown, len(databases), none.Complete, none.Reached)
	}
	closed := dbs.Pay.Config(t, "t_auditor")
	closed.Port, closed.Password = 1, "hunter2-planted"
	empty := pgtest.Servers(t, 16).Pay.EmptyDB(t)
	for name, tt := range map[string]struct {
		pay       *pgx.ConnConfig
		embedded  bool
		reachable string
		fix       string
	}{
		"not configured": {nil, false, "unknown: paydb is not configured", "DLOCKCTL_PAY_DSN"},
		"down":           {closed, false, "fail: failed to connect", "is the server up"},
		"embedded, down": {closed, true, "fail: failed to connect", "dlockctl dev up"},
		"empty":          {empty.Config(t, "t_owner"), false, "", ""},
	} {
		report := run(t, doctor.Target{Lock: dbs.Lock.Config(t, "t_auditor"), Pay: tt.pay, Embedded: tt.embedded})
		for _, r := range report.Results {
			text := fmt.Sprintf("%s: %s", r.Status, r.Saw)
			fix := fmt.Sprintf("%+v", r.Fix)
			switch {
			case strings.Contains(text+fix, "hunter2"):
				t.Errorf("%s: %s shows the password: %s", name, r.ID, text)
			case r.ID == "paydb_reachable" && name != "empty":
				if !strings.HasPrefix(text, tt.reachable) || !strings.Contains(fix, tt.fix) {
					t.Errorf("%s: %s %s, fix %s", name, r.ID, text, fix)
				}
			case r.Database == doctor.LockDB && r.ID != "lockdb_peer" && r.Status != doctor.OK:
				t.Errorf("%s: %s %s", name, r.ID, text)
			case r.Database != doctor.LockDB && r.Database != doctor.Services && name != "empty" && r.Status != doctor.Unknown:
				t.Errorf("%s: %s %s, want unknown", name, r.ID, text)
			case r.ID == "paydb_schema" && name == "empty":
				if r.Status != doctor.Fail || r.Fix.Run != "dlockctl migrate up --target all" {
					t.Errorf("%s: %s %s, fix %s", name, r.ID, text, fix)
				}
			}
		}
	}
}

// Every statement is a SELECT that is valid on the schema it asks about.
//
// Mutation: misspell a column in a file of queries.
func TestQueriesAreValid(t *testing.T) {
	t.Parallel()
	queries, err := doctor.Queries()
	if err != nil {
		t.Fatal(err)
	}
	dbs := pgtest.Migrated(t, 16)
	lock, pay, guard := dbs.Lock.Conn(t, "t_auditor"), dbs.Pay.Conn(t, "t_auditor"), guarded(t, 16).Conn(t, "super")
	for name, sql := range queries {
		_, onLock := lock.Prepare(t.Context(), name, sql)
		_, onPay := pay.Prepare(t.Context(), name, sql)
		_, onGuard := guard.Prepare(t.Context(), name, sql)
		if onLock != nil && onPay != nil && onGuard != nil {
			t.Errorf("%s is valid on no database: %v", name, errors.Join(onLock, onPay, onGuard))
		}
		if !regexp.MustCompile(`(?s)^(--[^\n]*\n)*(WITH|SELECT) `).MatchString(sql) {
			t.Errorf("%s is no SELECT", name)
		}
	}
}

// Run writes nothing, whatever its login may write and whatever stands in the way
// of its questions.
//
// Mutation: begin the transaction without AccessMode.
func TestRunOnlyReads(t *testing.T) {
	t.Parallel()
	dbs := healthy(t, 16)
	exec(t, dbs.Lock, `CREATE TABLE written (n INT);
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN INSERT INTO written VALUES (1); RETURN pg_catalog.clock_timestamp(); END';
		ALTER DATABASE `+pgx.Identifier{dbs.Lock.Name}.Sanitize()+` SET search_path = public, pg_catalog`)
	report := run(t, target(t, dbs, "super"))
	const refused = "unknown: could not be read: cannot execute INSERT in a read-only transaction"
	if got := notOK(report)["lockdb_clock"]; got != refused {
		t.Errorf("lockdb_clock %q, want %q", got, refused)
	}
	var rows int
	if err := dbs.Lock.Conn(t, "super").QueryRow(t.Context(), `SELECT count(*) FROM written`).Scan(&rows); err != nil || rows > 0 {
		t.Errorf("%d rows were written (%v)", rows, err)
	}
}

// The list that the store refuses to grant without is covered by the one read
// from the migrations, and neither is empty.
//
// Clauses: K-1.1
// Mutation: break createTrigger or enableTrigger.
func TestGuardsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	always, err := doctor.AlwaysTriggers(doctor.LockDB)
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range postgres.Guards() {
		if !slices.Contains(always, guard) {
			t.Errorf("%s is not among %v", guard, always)
		}
	}
	pay, err := doctor.AlwaysTriggers(doctor.PayDB)
	if err != nil {
		t.Fatal(err)
	}
	if len(always) < 12 || len(pay) < 30 {
		t.Errorf("read %d guards of lockdb and %d of paydb", len(always), len(pay))
	}
	if slices.Contains(always, "operator_log.operator_log_chain") {
		t.Error("operator_log_chain is ORIGIN on purpose")
	}
}

var update = flag.Bool("update", false, "write the table of docs/doctor.md again")

// The page shows the table, and every check names a clause that there is.
//
// Mutation: change a title.
func TestPageShowsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- checks:begin -->\n", "<!-- checks:end -->"
	_, rest, _ := strings.Cut(string(page), begin)
	table, after, found := strings.Cut(rest, end)
	if *update {
		before, _, _ := strings.Cut(string(page), begin)
		if err := os.WriteFile("../../docs/doctor.md", []byte(before+begin+doctor.Table()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		table = doctor.Table()
	}
	if diff := cmp.Diff(doctor.Table(), table); !found || diff != "" {
		t.Errorf("docs/doctor.md is out of date; run with -update:\n%s", diff)
	}
	contract, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range doctor.Checks() {
		if !strings.Contains(string(contract), "**"+c.Clause+"** ") {
			t.Errorf("%s: the contract has no clause %s", c.ID, c.Clause)
		}
		if seen[c.ID] || c.Title == "" || c.Meaning == "" || c.Severity == "" || c.Database == "" {
			t.Errorf("check %+v is incomplete, or there twice", c)
		}
		seen[c.ID] = true
	}
}
