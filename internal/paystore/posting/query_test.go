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
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Every statement is one that PostgreSQL accepts on the migrated schema from the
// service's own role, and every file in queries/ is used.
//
// Clauses: K-4.6
// Mutation: read rail_high_water in queries/standing.sql, or revoke a right in V18.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, posting.QueryFiles())
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Pay.Conn(t, "t_resource")
		queries := posting.Queries()
		pgtest.Prepares(t, conn, queries, files)
		for name, sql := range queries {
			// PREPARE does not look at rights; EXPLAIN does.
			nulls := regexp.MustCompile(`\$\d+`).ReplaceAllString(sql, "NULL")
			if _, err := conn.Exec(t.Context(), "EXPLAIN "+nulls); err != nil && strings.Contains(err.Error(), "permission") {
				t.Errorf("queries/%s.sql: %v", name, err)
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
	files := pgtest.QueryTexts(t, posting.QueryFiles())
	specified, err := os.ReadFile("../../../migrations/testdata/paydb/c1_1_6.sql")
	if err != nil {
		t.Fatal(err)
	}
	statements := strings.SplitAfter(string(specified), ";")
	for i, name := range []string{"debit", "leg", "post"} {
		if diff := cmp.Diff(pgtest.Fold(statements[i]), pgtest.Fold(files[name])); diff != "" {
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
	pgtest.LeavesNoState(t, posting.Queries())
}

// Each row of the table of transitions has its predicate in a statement, word for
// word but for the state that move and take_over are told.
//
// Clauses: K-5.1
// Mutation: leave claim_token = :token out of queries/move.sql.
func TestPredicatesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, posting.QueryFiles())
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
		if !strings.Contains(pgtest.Fold(files[name]), "WHERE payout_id = :payout_id AND "+want+" RETURNING") {
			t.Errorf("%s from %s: queries/%s.sql does not say %q and nothing else", tr.Action, tr.From, name, want)
		}
	}
}
