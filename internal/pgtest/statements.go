package pgtest

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// QueryTexts reads a store's queries/*.sql, each by its name without .sql.
func QueryTexts(t testing.TB, files fs.FS) map[string]string {
	t.Helper()
	names, err := fs.Glob(files, "queries/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no statements in queries: %v", err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(path.Base(name), ".sql")] = string(text)
	}
	return texts
}

// Prepares wants PostgreSQL to accept each of a store's statements on the migrated
// schema, and each file of its queries to be one of them.
func Prepares(t testing.TB, conn *pgx.Conn, queries, files map[string]string) {
	t.Helper()
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
}

var stateful = regexp.MustCompile(`(?i)clock_timestamp|statement_timestamp|pg_(try_)?advisory_lock\b|\bLISTEN\b|\bSET SESSION\b|\bPREPARE\b`)

// LeavesNoState wants no statement to read the clock that moves inside a transaction
// (K-2.1), nor to leave state in the server's session (K-12.3).
func LeavesNoState(t testing.TB, queries map[string]string) {
	t.Helper()
	for name, sql := range queries {
		if found := stateful.FindString(sql); found != "" {
			t.Errorf("queries/%s.sql uses %s", name, found)
		}
	}
}

// Fold drops comment lines and folds white space: two statements that fold alike are
// the same to the letter.
func Fold(sql string) string {
	lines := slices.DeleteFunc(strings.Split(sql, "\n"), func(line string) bool { return strings.HasPrefix(line, "--") })
	return strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
}
