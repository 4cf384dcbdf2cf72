package posting_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// Every statement is one that PostgreSQL accepts on the migrated schema from the
// service's own role, and every file in queries/ is used.
//
// Clauses: K-4.6
// Mutation: read rail_high_water in queries/standing.sql, or revoke a right in V18.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := posting.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Pay.Conn(t, "t_resource")
		queries := posting.Queries()
		for name, sql := range queries {
			// PREPARE does not look at rights; EXPLAIN does.
			if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
				t.Errorf("queries/%s.sql: %v", name, err)
			}
			nulls := regexp.MustCompile(`\$\d+`).ReplaceAllString(sql, "NULL")
			if _, err := conn.Exec(t.Context(), "EXPLAIN "+nulls); err != nil && strings.Contains(err.Error(), "permission") {
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

// (a), (b) and (c) are the specified statements.
//
// Clauses: K-4.1
// Mutation: change a word of queries/debit.sql, leg.sql or post.sql.
func TestNormativeStatements(t *testing.T) {
	t.Parallel()
	files, err := posting.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	specified, err := os.ReadFile("../../../migrations/testdata/paydb/c1_1_6.sql")
	if err != nil {
		t.Fatal(err)
	}
	statements := strings.SplitAfter(string(specified), ";")
	for i, name := range []string{"debit", "leg", "post"} {
		if diff := cmp.Diff(fold(statements[i]), fold(files[name])); diff != "" {
			t.Errorf("queries/%s.sql is not the specified statement (-specified +ours):\n%s", name, diff)
		}
	}
}

// No statement reads the clock that moves inside a transaction, and none leaves
// state in the server's session.
//
// Clauses: K-2.1, K-12.3
// Mutation: use clock_timestamp() or pg_advisory_lock in a query.
func TestQueriesLeaveClockAndSessionAlone(t *testing.T) {
	t.Parallel()
	banned := regexp.MustCompile(`(?i)clock_timestamp|statement_timestamp|pg_(try_)?advisory_lock\b|\bLISTEN\b|\bSET SESSION\b`)
	for name, sql := range posting.Queries() {
		if found := banned.FindString(sql); found != "" {
			t.Errorf("queries/%s.sql uses %s", name, found)
		}
	}
}

// Each row of the table of transitions has its predicate in a statement, word for
// word but for the state that move and take_over are told.
//
// Clauses: K-5.1
// Mutation: leave claim_token = :token out of queries/move.sql.
func TestPredicatesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	files, err := posting.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range paystore.Transitions() {
		name, told := "move", true
		switch {
		case tr.Action == paystore.TakeOver:
			name = "take_over"
		case tr.Action == paystore.GiveUp && tr.From == paystore.Pending:
			name, told = "give_up", false
		case slices.Contains([]paystore.Action{paystore.Claim, paystore.Release, paystore.Submit, paystore.Post}, tr.Action):
			name, told = string(tr.Action), false
		}
		want := tr.Predicate
		if told {
			want = strings.Replace(want, "'"+string(tr.From)+"'", ":from", 1)
		}
		if !strings.Contains(fold(files[name]), "WHERE payout_id = :payout_id AND "+want+" RETURNING") {
			t.Errorf("%s from %s: queries/%s.sql does not say %q and nothing else", tr.Action, tr.From, name, want)
		}
	}
}

// fold drops comment lines and folds white space.
func fold(sql string) string {
	lines := slices.DeleteFunc(strings.Split(sql, "\n"), func(line string) bool { return strings.HasPrefix(line, "--") })
	return strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
}
