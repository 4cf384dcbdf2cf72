package doctor_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// guarded is a database with SyncGuard's tables and the audit.
func guarded(t *testing.T, major int) pgtest.DB {
	t.Helper()
	db := pgtest.Servers(t, major).Lock.EmptyDB(t)
	for _, file := range []string{"syncguard/V1__create_locks_and_fence_counters.sql", "audit/syncguard/R__keep_audit.sql"} {
		text, err := fs.ReadFile(migrations.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, string(text))
	}
	return db
}

func guardTarget(config *pgx.ConnConfig) doctor.Target {
	return doctor.Target{SyncGuard: &doctor.SyncGuardTarget{Config: config, Names: tables.Default()}}
}

// SyncGuard's tables are whole as they are made, and in use; its checks are made, and
// no others.
//
// Clauses: K-10.2
// Mutation: leave checks of lockdb in Run where SyncGuard's tables keep the locks.
func TestHealthySyncGuardPasses(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		db := guarded(t, major)
		exec(t, db, `INSERT INTO syncguard_fence_counters VALUES ('fence:a', 5, 'a'), ('fence:gone', 3, NULL);
			INSERT INTO syncguard_locks VALUES ('a', 'x', floor(extract(epoch FROM now()) * 1000) + 30000, 0, '000000000000005', 'a')`)
		report := run(t, guardTarget(db.Config(t, "super")))
		if diff := cmp.Diff(map[string]string{}, notOK(report)); diff != "" {
			t.Errorf("PostgreSQL %d (-want +got):\n%s", major, diff)
		}
		if len(report.Results) != len(doctor.SyncGuardChecks()) || fmt.Sprint(report.Reached) != "[syncguard]" {
			t.Errorf("%d checks, reached %v", len(report.Results), report.Reached)
		}
	}
}

// A login that may not read is unknown, never ok, and a database that does not
// answer says so without its password.
//
// Clauses: K-10.2
// Mutation: let on() return ok for an error.
func TestUnreadableSyncGuardIsUnknown(t *testing.T) {
	t.Parallel()
	db := guarded(t, 16)
	found := notOK(run(t, guardTarget(db.Config(t, "t_auditor"))))
	for _, id := range []string{"syncguard_counters", "syncguard_headroom", "syncguard_rows", "syncguard_lapsed", "syncguard_blockers"} {
		if !strings.HasPrefix(found[id], "unknown: could not be read: permission denied") {
			t.Errorf("%s is %q", id, found[id])
		}
	}
	closed := db.Config(t, "super")
	closed.Port, closed.Password = 1, "hunter2-planted"
	report := run(t, guardTarget(closed))
	for _, r := range report.Results {
		want := doctor.Unknown
		if r.ID == "syncguard_reachable" {
			want = doctor.Fail
		}
		if text := fmt.Sprintf("%+v", r); r.Status != want || strings.Contains(text, "hunter2") {
			t.Errorf("%s", text)
		}
	}
}

// Every check of SyncGuard's is complete, and of a clause that there is.
//
// Mutation: misspell a clause.
func TestSyncGuardChecksAreComplete(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range doctor.SyncGuardChecks() {
		if !strings.Contains(string(contract), "**"+c.Clause+"** ") {
			t.Errorf("%s: the contract has no clause %s", c.ID, c.Clause)
		}
		if seen[c.ID] || c.Title == "" || c.Meaning == "" || c.Severity == "" || c.Database != doctor.SyncGuard {
			t.Errorf("check %+v is incomplete, or there twice", c)
		}
		seen[c.ID] = true
	}
}
