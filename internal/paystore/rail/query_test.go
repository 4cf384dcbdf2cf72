package rail_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Every statement is one that PostgreSQL accepts on the migrated schema, and every
// file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, rail.QueryFiles())
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Pay.Conn(t, "t_rail")
		queries := rail.Queries()
		pgtest.Prepares(t, conn, queries, files)
	})
}

// The mark is the specified statement.
//
// Clauses: K-4.1
// Mutation: change a word of queries/mark.sql.
func TestNormativeStatement(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, rail.QueryFiles())
	specified, err := os.ReadFile("testdata/c1_1_6_d.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pgtest.Fold(string(specified)), pgtest.Fold(files["mark"])); diff != "" {
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
	pgtest.LeavesNoState(t, rail.Queries())
}
