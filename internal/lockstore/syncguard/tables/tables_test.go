package tables_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// schema is what the first migration makes, for these names.
func schema(t *testing.T, names tables.Names) string {
	t.Helper()
	text, err := fs.ReadFile(migrations.FS, "syncguard/V1__create_locks_and_fence_counters.sql")
	if err != nil {
		t.Fatal(err)
	}
	if names == tables.Default() {
		return string(text)
	}
	return names.SQL(string(text))
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func look(t *testing.T, conn *pgx.Conn, names tables.Names) tables.Found {
	t.Helper()
	found, err := tables.Look(t.Context(), conn, names)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func said(found tables.Found) []string {
	texts := []string{}
	for _, d := range found.Differences {
		texts = append(texts, d.String())
	}
	return texts
}

// Each way in which the tables are not the library's is said exactly, and where
// there is a statement that puts it right, it does.
//
// Clauses: K-10.2
// Mutation: drop a case of differences, compareColumn or compareIndex.
func TestDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	const lock, fence = `syncguard_locks: `, `syncguard_fence_counters: `
	conn := pgtest.Servers(t, 16).Lock.EmptyDB(t).Conn(t, "super")
	for _, tt := range []struct {
		fault, want string
		fixed       bool
	}{
		{`ALTER TABLE syncguard_locks DROP COLUMN expires_at_ts`, "", true},
		{`ALTER TABLE syncguard_fence_counters DROP COLUMN key_debug`, fence + "column key_debug text is missing", true},
		{`ALTER TABLE syncguard_locks DROP COLUMN user_key`, lock + "column user_key text is missing", false},
		{`ALTER TABLE syncguard_locks ADD COLUMN owner TEXT`, lock + "column owner text is none of SyncGuard's", false},
		{`ALTER TABLE syncguard_locks ALTER COLUMN fence TYPE bigint USING 0`, lock + "column fence is bigint, and should be text", false},
		{`ALTER TABLE syncguard_locks ALTER COLUMN user_key DROP NOT NULL`, lock + "column user_key may be NULL", true},
		{`ALTER TABLE syncguard_fence_counters ALTER COLUMN key_debug SET NOT NULL`, fence + "column key_debug is NOT NULL, and should not be", true},
		{`ALTER TABLE syncguard_fence_counters ALTER COLUMN fence DROP DEFAULT`, fence + "column fence has not the default 0", true},
		{`ALTER TABLE syncguard_locks ALTER COLUMN expires_at_ts DROP EXPRESSION`, lock + "column expires_at_ts is generated: false, and should be: true", false},
		{`DROP INDEX idx_syncguard_locks_lock_id`, lock + "the unique index over lock_id is missing: two locks could have one id, and each look by it reads the whole table", true},
		{`DROP INDEX idx_syncguard_locks_lock_id; CREATE INDEX ON syncguard_locks (lock_id)`, lock + "the unique index over lock_id is missing: two locks could have one id, and each look by it reads the whole table", true},
		{`DROP INDEX idx_syncguard_locks_expires`, lock + "the index over expires_at_ms is missing: each look for what has lapsed reads the whole table", true},
		{`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_syncguard_locks_expires'::regclass`, lock + "index public.idx_syncguard_locks_expires over expires_at_ms is not valid: each look for what has lapsed reads the whole table", true},
		{`ALTER TABLE syncguard_locks DROP CONSTRAINT syncguard_locks_pkey`, lock + "key is not the primary key: one key could have two rows", true},
		{`ALTER TABLE syncguard_fence_counters SET UNLOGGED`, fence + "is unlogged or temporary: a crash empties it, and fences begin at 1 again", true},
		{`DROP TABLE syncguard_fence_counters`, fence + "is missing, and the other of the two is there", false},
		{`DROP TABLE syncguard_fence_counters; CREATE VIEW syncguard_fence_counters AS SELECT 1`, fence + "is no ordinary table", false},
		{`CREATE SCHEMA other; ALTER TABLE syncguard_fence_counters SET SCHEMA other; SET search_path = public, other`, fence + "stands in schema other, and syncguard_locks in public", true},
	} {
		exec(t, conn, "BEGIN")
		exec(t, conn, schema(t, tables.Default()))
		exec(t, conn, tt.fault)
		found := look(t, conn, tables.Default())
		want := []string{}
		if tt.want != "" {
			want = append(want, tt.want)
		}
		if diff := cmp.Diff(want, said(found)); diff != "" || found.Whole() != (tt.want == "") {
			t.Errorf("%s (-want +got):\n%s", tt.fault, diff)
		}
		for _, d := range found.Differences {
			if (d.Fix != "") != tt.fixed {
				t.Errorf("%s has the fix %q", tt.fault, d.Fix)
				continue
			}
			if d.Fix != "" {
				exec(t, conn, d.Fix)
			}
		}
		if after := look(t, conn, tables.Default()); tt.fixed && !after.Whole() {
			t.Errorf("%s is not put right: %v", tt.fault, said(after))
		}
		exec(t, conn, "ROLLBACK")
	}
}

// Other names are quoted, as the library's operations quote them; a name that the
// library's setup has folded to lower case is found, and said.
//
// Clauses: K-10.2
// Mutation: leave the quotes out of Names.SQL, or foldedTwin out of Look.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	conn := pgtest.Servers(t, 16).Lock.EmptyDB(t).Conn(t, "super")
	names := tables.Names{Lock: "AppLocks", Fence: "app_counters"}
	if found := look(t, conn, names); !found.Absent() {
		t.Errorf("an empty database has %+v", found)
	}
	exec(t, conn, schema(t, names))
	if found := look(t, conn, names); !found.Whole() || found.Schema != "public" {
		t.Errorf("what was made under these names is %+v", found)
	}
	exec(t, conn, `ALTER TABLE "AppLocks" RENAME TO applocks`)
	if found := look(t, conn, names); found.Whole() || !strings.Contains(strings.Join(said(found), ";"), `applocks: stands under a name in lower-case letters`) {
		t.Errorf("a folded name is %+v", found)
	}
}

// With a longer name the two indexes get one name of 63 bytes, so that the second is
// not made at all: it is refused before, and 57 letters are not.
//
// Mutation: raise longest by one.
func TestLongNames(t *testing.T) {
	t.Parallel()
	conn := pgtest.Servers(t, 16).Lock.EmptyDB(t).Conn(t, "super")
	for length, creatable := range map[int]bool{57: true, 58: false, 63: false} {
		names := tables.Names{Lock: strings.Repeat("l", length), Fence: "counters"}
		if err := names.Creatable(); (err == nil) != creatable {
			t.Errorf("%d letters: %v", length, err)
		}
		exec(t, conn, "BEGIN")
		_, err := conn.PgConn().Exec(t.Context(), schema(t, names)).ReadAll()
		if (err == nil) != creatable {
			t.Errorf("%d letters, made: %v", length, err)
		}
		exec(t, conn, "ROLLBACK")
	}
}

// Every copy that another one hides is found, in the order of the search_path.
//
// Clauses: K-10.2
// Mutation: order twins.sql by the schema's name.
func TestTwins(t *testing.T) {
	t.Parallel()
	conn := pgtest.Servers(t, 16).Lock.EmptyDB(t).Conn(t, "super")
	for _, name := range []string{"zeta", "alpha", "unseen"} {
		exec(t, conn, "CREATE SCHEMA "+name+"; SET search_path = "+name+"; "+schema(t, tables.Default()))
	}
	exec(t, conn, "DROP TABLE alpha.syncguard_locks; SET search_path = zeta, alpha")
	twins, err := tables.Twins(t.Context(), conn, tables.Default())
	if err != nil {
		t.Fatal(err)
	}
	want := []tables.Twin{{Table: tables.DefaultFence, Used: "zeta", Hidden: "alpha"}}
	if diff := cmp.Diff(want, twins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every statement is one that the server takes.
func TestQueriesAreValid(t *testing.T) {
	t.Parallel()
	conn := pgtest.Servers(t, 15).Lock.EmptyDB(t).Conn(t, "super")
	names := []string{}
	for name, sql := range tables.Queries() {
		names = append(names, name)
		if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"columns", "indexes", "table", "twins"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
