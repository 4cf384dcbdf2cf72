package migrate_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
	"github.com/dlockctl/dlockctl/migrations"
)

// guarded runs a migrate verb on SyncGuard's database.
func guarded(t *testing.T, db pgtest.DB, env map[string]string, args ...string) result {
	t.Helper()
	all := map[string]string{"DLOCKCTL_STATE_DIR": filepath.Join(t.TempDir(), "none"), "DLOCKCTL_LOCK_DSN": db.DSN("super"), "DLOCKCTL_BACKEND": "syncguard"}
	for name, value := range env {
		all[name] = value
	}
	args = append([]string{"migrate"}, args...)
	streams, out, errOut := ui.Test("", all)
	return result{cli.Run(t.Context(), app.New(streams, args), args), out.String(), errOut.String()}
}

// library makes the tables as SyncGuard's setup function does: without the two
// generated columns of its SQL file.
func library(t *testing.T, db pgtest.DB) {
	t.Helper()
	text, err := fs.ReadFile(migrations.FS, "syncguard/V1__create_locks_and_fence_counters.sql")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "ALTER TABLE")
	sql(t, db, before)
}

func sql(t *testing.T, db pgtest.DB, text string) {
	t.Helper()
	if _, err := db.Conn(t, "super").PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, db pgtest.DB, query string) (n int) {
	t.Helper()
	if err := db.Conn(t, "super").QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// In an application's database, with a Flyway history of its own, SyncGuard's tables
// are made beside whatever is there; the audit only when it is asked for, and it is
// not missed by who does not ask again.
//
// Clauses: K-10.2, K-9.3
// Mutation: leave Guest or Table out of with, or the history out of syncGuardTarget.
func TestSyncGuardUp(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		db := pgtest.Servers(t, major).Lock.EmptyDB(t)
		sql(t, db, `CREATE TABLE flyway_schema_history (installed_rank INT); CREATE TABLE orders (id INT)`)
		guarded(t, db, nil, "status", "--exit-code").check(t, app.Findings, "Pending", "")
		guarded(t, db, nil, "up").check(t, app.OK, "syncguard", "applied V1__")
		const audits = `SELECT count(*) FROM pg_tables WHERE tablename = 'dlockctl_syncguard_audit'`
		if n := number(t, db, audits); n != 0 {
			t.Fatal("the audit was made unasked")
		}
		guarded(t, db, nil, "up", "--target", "syncguard", "--audit").check(t, app.OK, "syncguard", "applied R__keep_audit")
		if n := number(t, db, audits); n != 1 {
			t.Error("the audit was not made")
		}
		guarded(t, db, nil, "up").check(t, app.OK, "syncguard", "")
		guarded(t, db, nil, "validate").check(t, app.OK, "", "no findings")
		if n := number(t, db, `SELECT count(*) FROM flyway_schema_history`); n != 0 {
			t.Error("the application's history was written to")
		}
		sql(t, db, `DROP TABLE syncguard_locks, syncguard_fence_counters`)
		guarded(t, db, nil, "up").check(t, app.History, "", "there is no table syncguard_locks")
	}
}

// Tables that the library made are adopted as they are; those that differ are refused
// with the difference, and nothing is written. What the fix says makes them adoptable.
//
// Clauses: K-10.2
// Mutation: let adopt record what is not Whole.
func TestSyncGuardAdopts(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	guarded(t, db, nil, "baseline", "1", "--target", "syncguard").check(t, app.Refused, "", "there are no tables to adopt")
	library(t, db)
	sql(t, db, `INSERT INTO syncguard_fence_counters VALUES ('fence:a', 41, 'a'); DROP INDEX idx_syncguard_locks_expires`)
	for _, args := range [][]string{{"up"}, {"baseline", "1", "--target", "syncguard"}} {
		guarded(t, db, nil, args...).check(t, app.Refused, "", "the index over expires_at_ms is missing")
	}
	guarded(t, db, nil, "up", "-o", "json").check(t, app.Refused, "", `"fix": "CREATE INDEX \"idx_syncguard_locks_expires\" ON`)
	if n := number(t, db, `SELECT count(*) FROM pg_tables WHERE tablename = 'dlockctl_syncguard_history'`); n != 0 {
		t.Error("a refused adoption left a history")
	}
	sql(t, db, `CREATE INDEX "idx_syncguard_locks_expires" ON "public"."syncguard_locks" (expires_at_ms)`)
	guarded(t, db, nil, "up", "-o", "json").check(t, app.OK, `"adopted": true`, "")
	guarded(t, db, nil, "baseline", "1", "--target", "syncguard").check(t, app.OK, "1", "")
	guarded(t, db, nil, "status").check(t, app.OK, "Baseline", "")
	guarded(t, db, nil, "validate").check(t, app.OK, "", "no findings")
	guarded(t, db, nil, "baseline", "2", "--target", "syncguard").check(t, app.Usage, "", "version 1")
	if n := number(t, db, `SELECT fence FROM syncguard_fence_counters`); n != 41 {
		t.Errorf("the counter is %d", n)
	}
}

// Other names and another schema: made there, and adopted there.
//
// Clauses: K-10.2
// Mutation: leave Schema out of with, or renamed out of syncGuardLocations.
func TestSyncGuardUnderOtherNames(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DLOCKCTL_SYNCGUARD_LOCK_TABLE": "AppLocks", "DLOCKCTL_SYNCGUARD_FENCE_TABLE": "app_counters"}
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	sql(t, db, `CREATE SCHEMA guard; ALTER DATABASE "`+db.Name+`" SET search_path = guard, public`)
	guarded(t, db, env, "up").check(t, app.OK, "syncguard", "applied V1__")
	if n := number(t, db, `SELECT count(*) FROM pg_indexes WHERE schemaname = 'guard' AND tablename = 'AppLocks' AND indexname LIKE 'idx_AppLocks_%'`); n != 2 {
		t.Errorf("%d of the two indexes were made", n)
	}
	// With the default names it is another pair: there is one history a schema.
	guarded(t, db, nil, "up").check(t, app.Refused, "", `locks "guard"."AppLocks", counters "guard"."app_counters"`)
	guarded(t, db, nil, "validate").check(t, app.Findings, "V1__", "")
	other := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	library(t, other)
	sql(t, other, `CREATE SCHEMA first; ALTER DATABASE "`+other.Name+`" SET search_path = first, public`)
	guarded(t, other, nil, "up").check(t, app.OK, "syncguard", "")
	if n := number(t, other, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename = 'dlockctl_syncguard_history'`); n != 1 {
		t.Error("the history is not beside the tables that were adopted")
	}
	env["DLOCKCTL_SYNCGUARD_LOCK_TABLE"] = strings.Repeat("l", 58)
	guarded(t, pgtest.Servers(t, 16).Lock.EmptyDB(t), env, "up").check(t, app.Usage, "", "give at most 57")
}

// A pair of other names is neither passed over for new and empty tables, nor recorded as
// the other one, be the configured pair there, adopted, or not.
//
// Clauses: K-10.2
// Mutation: leave Others out of shape, or look at shape behind the history in adopt.
func TestSyncGuardOtherNames(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	library(t, db)
	sql(t, db, `CREATE SCHEMA app; ALTER DATABASE "`+db.Name+`" SET search_path = app, public`)
	env := map[string]string{"DLOCKCTL_SYNCGUARD_LOCK_TABLE": "app_locks", "DLOCKCTL_SYNCGUARD_FENCE_TABLE": "app_counters"}
	sql(t, db, `INSERT INTO syncguard_fence_counters VALUES ('fence:a', 41, 'a')`)
	refused := func(env map[string]string, args ...string) {
		t.Helper()
		for _, part := range []string{`"code": "other_names"`, `"lock": true`, "syncguard.lock_table: "} {
			guarded(t, db, env, append(args, "-o", "json")...).check(t, app.Refused, "", part)
		}
	}
	// The application's are in public under the default names; nothing is made in app.
	refused(env, "up")
	refused(env, "baseline", "1", "--target", "syncguard")
	if n := number(t, db, `SELECT count(*) FROM pg_tables WHERE schemaname IN ('app', 'public')`); n != 2 {
		t.Errorf("there are %d tables", n)
	}
	guarded(t, db, nil, "up").check(t, app.OK, "syncguard", "")
	// The second pair comes later, beside what was adopted; from either side it is said.
	sql(t, db, `CREATE TABLE app_locks (LIKE syncguard_locks INCLUDING ALL); CREATE TABLE app_counters (LIKE syncguard_fence_counters INCLUDING ALL);
		ALTER TABLE app.app_locks SET SCHEMA public; ALTER TABLE app.app_counters SET SCHEMA public`)
	refused(nil, "up")
	refused(env, "up")
	// In a schema of its own it is another deployment.
	sql(t, db, `ALTER TABLE app_locks SET SCHEMA app; ALTER TABLE app_counters SET SCHEMA app`)
	guarded(t, db, nil, "up").check(t, app.OK, "syncguard", "")
	guarded(t, db, env, "up").check(t, app.OK, "syncguard", "")
}

// The history is looked for beside the tables, wherever the search_path begins: who asked
// for the audit is not asked again, and tables that are gone are missed where they were.
//
// Clauses: K-10.2, K-9.3
// Mutation: read the history of "" in syncGuardTarget, or leave Where out of it.
func TestSyncGuardHistoryBesideTheTables(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	library(t, db)
	sql(t, db, `CREATE SCHEMA first; ALTER DATABASE "`+db.Name+`" SET search_path = first, public`)
	guarded(t, db, nil, "up", "--audit").check(t, app.OK, "syncguard", "applied R__keep_audit")
	guarded(t, db, nil, "validate").check(t, app.OK, "", "no findings")
	guarded(t, db, nil, "up").check(t, app.OK, "syncguard", "")
	sql(t, db, `DROP TABLE public.syncguard_locks, public.syncguard_fence_counters`)
	guarded(t, db, nil, "up").check(t, app.History, "", "there is no table syncguard_locks")
	if n := number(t, db, `SELECT count(*) FROM pg_tables WHERE schemaname = 'first'`); n != 0 {
		t.Errorf("%d tables were made in the first schema", n)
	}
}

// What would keep the library, or this program, from writing is not adopted.
//
// Clauses: K-10.2
// Mutation: take indimmediate out of tables/queries/indexes.sql, or any part out of hindrances.sql.
func TestSyncGuardHindrances(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	library(t, db)
	sql(t, db, `ALTER TABLE syncguard_fence_counters DROP CONSTRAINT syncguard_fence_counters_pkey, ADD PRIMARY KEY (fence_key) DEFERRABLE;
		ALTER TABLE syncguard_locks ADD UNIQUE (fence), ADD CHECK (length(key) < 9)`)
	for _, said := range []string{"is DEFERRABLE: ON CONFLICT cannot use it", "unique index syncguard_locks_fence_key", "CHECK ((length(key) < 9))"} {
		guarded(t, db, nil, "up").check(t, app.Refused, "", said)
	}
	if n := number(t, db, `SELECT count(*) FROM pg_tables WHERE tablename = 'dlockctl_syncguard_history'`); n != 0 {
		t.Error("a refused adoption left a history")
	}
}

// Neither lockdb nor paydb is SyncGuard's database, and SyncGuard's is not lockdb.
//
// Clauses: K-10.2
// Mutation: take the look at lock_entry or at payout out of syncGuardTarget, or a case out of namesFor.
func TestSyncGuardIsNotLockdb(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	guarded(t, dbs.Lock, nil, "up").check(t, app.Refused, "", "is that of lockdb")
	guarded(t, dbs.Pay, nil, "up").check(t, app.Refused, "", "is that of paydb")
	guarded(t, dbs.Lock, nil, "up", "--target", "lockdb").check(t, app.Usage, "", "the backend is syncguard")
	postgres := map[string]string{"DLOCKCTL_BACKEND": "postgres"}
	guarded(t, dbs.Lock, postgres, "up", "--target", "syncguard").check(t, app.Usage, "", "--backend syncguard")
	guarded(t, dbs.Lock, postgres, "up", "--target", "lockdb", "--audit").check(t, app.Usage, "", "--target syncguard")
	guarded(t, dbs.Lock, nil, "roles", "--target", "syncguard").check(t, app.Usage, "", "not supported by this backend")
	// Nobody has said otherwise: the target says whose database it is.
	empty := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	run(t, empty.DSN("super"), "", "migrate", "up", "--target", "syncguard").check(t, app.OK, "syncguard", "applied V1__")
}
