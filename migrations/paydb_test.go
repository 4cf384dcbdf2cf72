package migrations_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// oddSchema shows that nothing in a migration is tied to schema public.
const oddSchema = "odd Pay"

// onMajors runs f once per tested version of PostgreSQL.
func onMajors(t *testing.T, f func(t *testing.T, major int)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			f(t, major)
		})
	}
}

// paySchema makes a database whose search_path is one schema, owned as it must be,
// and returns it with a superuser's connection.
func paySchema(t *testing.T, major int, schema string) (pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.Servers(t, major).Pay.EmptyDB(t)
	conn := db.Conn(t, "super")
	if schema != "public" {
		name := pgx.Identifier{schema}.Sanitize()
		payExec(t, conn, "CREATE SCHEMA "+name+" AUTHORIZATION dlock_owner")
		payExec(t, conn, "SET search_path = "+name)
	}
	return db, conn
}

func payExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Every version is applied to tables with rows, and what it forbids is shown to be
// possible before it and refused after it.
//
// Clauses: K-1.6, K-4.7, K-4.8, K-4.10, K-4.11, K-4.12, K-5.1, K-5.2, K-5.3, K-7.9, K-9.2
// Mutation: take any trigger or constraint out of migrations/paydb/V4 to V22.
func TestPayStep(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		for _, schema := range []string{"public", oddSchema} {
			t.Run(schema, func(t *testing.T) {
				t.Parallel()
				_, conn := paySchema(t, major, schema)
				runAssertions(t, conn, "testdata/paydb/helper.sql")
				step(t, conn, "paydb")
			})
		}
	})
}

// V1 to V3 are C1 1.5 and nothing else.
//
// Clauses: K-9.2
// Mutation: change a word of V1, V2 or V3.
func TestPayFirstVersionsAreC1ToTheLetter(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/paydb/c1_1_5.sql")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range versionsOf(t, "paydb")[:3] {
		text, err := fs.ReadFile(migrations.FS, f.path)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(text)
		got.WriteString("\n")
	}
	// Spread over files, so the order is their own; a multiset is compared.
	if diff := cmp.Diff(statementsOf(string(want)), statementsOf(got.String())); diff != "" {
		t.Errorf("V1 to V3 are not C1 1.5 (-C1 +ours):\n%s", diff)
	}
}

var (
	sqlComment = regexp.MustCompile(`(?m)--.*$`)
	whiteSpace = regexp.MustCompile(`\s+`)
)

// statementsOf splits plain DDL, folds its white space and sorts it.
func statementsOf(text string) []string {
	var statements []string
	for s := range strings.SplitSeq(sqlComment.ReplaceAllString(text, ""), ";") {
		if s = strings.TrimSpace(whiteSpace.ReplaceAllString(s, " ")); s != "" {
			statements = append(statements, s)
		}
	}
	slices.Sort(statements)
	return statements
}

// Each file says why it is there and which locks it takes, and holds nothing that
// one of the two engines would read differently.
//
// Clauses: K-9.1
// Mutation: put "${x}" or a COMMIT into a file, or take its "-- Locks:" line out.
func TestPayFilesKeepTheRules(t *testing.T) {
	t.Parallel()
	paths := []string{"seed/paydb/R__seed_synthetic_accounts.sql"}
	for i, f := range versionsOf(t, "paydb") {
		if f.version != i+1 {
			t.Errorf("%s stands at place %d: versions have no gap", f.path, i+1)
		}
		paths = append(paths, f.path)
	}
	transaction := regexp.MustCompile(`(?im)^\s*(BEGIN|COMMIT|ROLLBACK|START TRANSACTION)\s*;`)
	for _, path := range paths {
		raw, err := fs.ReadFile(migrations.FS, path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if !strings.HasPrefix(text, "-- ") || !strings.Contains(text, "\n-- Locks: ") {
			t.Errorf("%s has no header that says why and which locks", path)
		}
		if strings.Contains(text, "${") || transaction.MatchString(text) || strings.Contains(text, "\r") {
			t.Errorf("%s holds a placeholder, a transaction statement or a carriage return", path)
		}
		if strings.Contains(text, "clock_timestamp") {
			t.Errorf("%s asks clock_timestamp() (K-2.1)", path)
		}
		if strings.Contains(text, "public.") {
			t.Errorf("%s is tied to schema public", path)
		}
	}
}

// payUnsafe lists what would make a guard fail to fire or fail when it fires.
const payUnsafe = `
SELECT format('trigger %s on %s is not ENABLE ALWAYS', tgname, tgrelid::regclass)
  FROM pg_trigger
 WHERE NOT tgisinternal AND tgenabled <> 'A' AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1))
UNION ALL
SELECT format('function %s runs with search_path %s', proname, proconfig)
  FROM pg_proc
 WHERE pronamespace = to_regnamespace($1)
   AND proconfig IS DISTINCT FROM ARRAY[format('search_path=pg_catalog, %s, pg_temp', $1)]
UNION ALL
SELECT format('anybody may execute SECURITY DEFINER function %s', proname)
  FROM pg_proc
 WHERE pronamespace = to_regnamespace($1) AND prosecdef AND has_function_privilege('lockapp', oid, 'EXECUTE')
UNION ALL
SELECT format('%s belongs to %s', oid::regclass, relowner::regrole)
  FROM pg_class
 WHERE relnamespace = to_regnamespace($1) AND relowner <> 'dlock_owner'::regrole`

// Clauses: K-1.1, K-9.5
// Mutation: take ENABLE ALWAYS, a SET search_path or the REVOKE out of a file.
func TestPayGuardsAlwaysFire(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		for _, schema := range []string{"public", oddSchema} {
			_, conn := paySchema(t, major, schema)
			applyAll(t, conn, "paydb")
			name := pgx.Identifier{schema}.Sanitize()
			if schema == "public" {
				name = schema
			}
			if found := payUnsafeFindings(t, conn, name); len(found) > 0 {
				t.Errorf("in schema %s: %q", schema, found)
			}
			// The query itself can find each of them.
			payExec(t, conn, `ALTER TABLE account ENABLE TRIGGER account_guard;
				ALTER FUNCTION payout_guard() RESET search_path;
				GRANT EXECUTE ON FUNCTION payout_claim_record() TO PUBLIC;
				ALTER TABLE pay_gate OWNER TO CURRENT_USER`)
			// pay_gate, its index and nothing else changed hands: five findings.
			if found := payUnsafeFindings(t, conn, name); len(found) != 5 {
				t.Errorf("planted 5 faults in schema %s, found %q", schema, found)
			}
		}
	})
}

func payUnsafeFindings(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), payUnsafe, schema)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}
