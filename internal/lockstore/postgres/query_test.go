package postgres_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// Every statement is one that PostgreSQL accepts on the migrated schema, and
// every file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := postgres.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Lock.Conn(t, "t_lockapp")
		queries := postgres.Queries()
		for name, sql := range queries {
			if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
				t.Errorf("queries/%s.sql: %v", name, err)
			}
		}
		for name := range files {
			if _, used := queries[name]; !used {
				t.Errorf("queries/%s.sql is used by nothing", name)
			}
		}
	})
}

// Acquire, renew, release and heartbeat are the specified statements.
//
// Clauses: K-2.6
// Mutation: change a word of queries/acquire.sql, renew.sql, release.sql or heartbeat.sql.
func TestNormativeStatements(t *testing.T) {
	t.Parallel()
	files, err := postgres.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"acquire": "c1_1_3_acquire.sql", "renew": "c1_1_4_renew.sql", "release": "c1_1_4_release.sql", "heartbeat": "c1_1_4_heartbeat.sql",
	} {
		specified, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fold(string(specified)), fold(files[name])); diff != "" {
			t.Errorf("queries/%s.sql is not the specified statement (-specified +ours):\n%s", name, diff)
		}
	}
}

// No statement reads the clock that moves inside a transaction, and none on the
// way to a grant leaves state in the server's session.
//
// Clauses: K-2.1, K-12.3
// Mutation: use clock_timestamp(), pg_advisory_lock or LISTEN in a query.
func TestQueriesLeaveClockAndSessionAlone(t *testing.T) {
	t.Parallel()
	banned := regexp.MustCompile(`(?i)clock_timestamp|statement_timestamp|pg_(try_)?advisory_lock\b|\bLISTEN\b|\bSET SESSION\b|\bPREPARE\b`)
	for name, sql := range postgres.Queries() {
		if found := banned.FindString(sql); found != "" {
			t.Errorf("queries/%s.sql uses %s", name, found)
		}
	}
}

// fold drops comment lines and folds white space.
func fold(sql string) string {
	lines := slices.DeleteFunc(strings.Split(sql, "\n"), func(line string) bool { return strings.HasPrefix(line, "--") })
	return strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
}
