package rail_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// Every statement is one that PostgreSQL accepts on the migrated schema, and every
// file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := rail.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Pay.Conn(t, "t_rail")
		queries := rail.Queries()
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

// The mark is the specified statement.
//
// Clauses: K-4.1
// Mutation: change a word of queries/mark.sql.
func TestNormativeStatement(t *testing.T) {
	t.Parallel()
	files, err := rail.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	specified, err := os.ReadFile("testdata/c1_1_6_d.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fold(string(specified)), fold(files["mark"])); diff != "" {
		t.Errorf("queries/mark.sql is not the specified statement (-specified +ours):\n%s", diff)
	}
}

// No statement reads the clock that moves inside a transaction, nor leaves state in
// the server's session.
//
// Clauses: K-2.1, K-12.3
// Mutation: use clock_timestamp() in overdue.sql.
func TestQueriesLeaveClockAndSessionAlone(t *testing.T) {
	t.Parallel()
	banned := regexp.MustCompile(`(?i)clock_timestamp|statement_timestamp|pg_(try_)?advisory_lock\b|\bLISTEN\b|\bSET SESSION\b|\bPREPARE\b`)
	for name, sql := range rail.Queries() {
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
