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

// A column that is NULL in a row is odd, and keeps no other check from being made.
//
// Clauses: K-10.2
// Mutation: leave num_nulls out of syncguard_odd.sql.
func TestNullInARowIsOdd(t *testing.T) {
	t.Parallel()
	db := guarded(t, 16)
	exec(t, db, `ALTER TABLE syncguard_locks ALTER COLUMN fence DROP NOT NULL, ALTER COLUMN lock_id DROP NOT NULL;
		INSERT INTO syncguard_fence_counters VALUES ('fence:a', 5, 'a'), ('fence:b', 5, 'b');
		INSERT INTO syncguard_locks VALUES ('a', 'x', 9e15, 0, NULL, 'a'), ('b', NULL, 9e15, 0, '000000000000005', 'b')`)
	found := notOK(run(t, guardTarget(db.Config(t, "super"))))
	const want = `warn: lock "a": a column of it is NULL; lock "b": a column of it is NULL`
	if found["syncguard_rows"] != want || !strings.HasPrefix(found["syncguard_tables"], "fail: ") || len(found) != 2 {
		t.Errorf("found %v, want %q and the columns", found, want)
	}
}

// What SyncGuard calls no lock and no counter is odd, and no counter is behind for it:
// a fast-forward would leave it as it stands.
//
// Clauses: K-10.2
// Mutation: take any condition out of the last WHERE of syncguard_odd.sql or of
// syncguard_behind.sql.
func TestForeignRowsAreOdd(t *testing.T) {
	t.Parallel()
	db := guarded(t, 16)
	long := strings.Repeat("x", 513)
	for _, c := range []struct{ table, key, fence, want string }{
		{"syncguard_fence_counters", "other", "-1", `counter "other": its key does not begin with fence: and a lock's key`},
		{"syncguard_fence_counters", "fence:", "-1", `counter "fence:": its key does not begin with fence: and a lock's key`},
		{"syncguard_fence_counters", "fence:cafe\u0301", "-1", "counter \"fence:cafe\u0301\": its key is not in the Unicode form NFC"},
		{"syncguard_fence_counters", "fence:" + long, "-1", `counter "fence:` + long + `": its lock's key is longer than 512 bytes`},
		{"syncguard_locks", "cafe\u0301", "000000000000007", "lock \"cafe\u0301\": its key is not in the Unicode form NFC"},
		{"syncguard_locks", long, "000000000000007", `lock "` + long + `": its key is longer than 512 bytes`},
		{"syncguard_locks", "ok", "000000000000000", `lock "ok": its fence is 0`},
	} {
		insert := fmt.Sprintf(`INSERT INTO syncguard_fence_counters VALUES ('%s', %s, '')`, c.key, c.fence)
		if c.table == "syncguard_locks" {
			insert = fmt.Sprintf(`INSERT INTO syncguard_locks VALUES ('%[1]s', 'id', 9e15, 0, '%[2]s', '%[1]s')`, c.key, c.fence)
		}
		exec(t, db, insert)
		if found := notOK(run(t, guardTarget(db.Config(t, "super")))); len(found) != 1 || found["syncguard_rows"] != "warn: "+c.want {
			t.Errorf("%.40s in %s: found %v, want %q", c.key, c.table, found, c.want)
		}
		exec(t, db, "DELETE FROM "+c.table)
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
