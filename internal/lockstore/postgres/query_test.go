package postgres_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Every statement is one that PostgreSQL accepts on the migrated schema, and
// every file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, postgres.QueryFiles())
	eachMajor(t, func(t *testing.T, b bundle) {
		conn := b.dbs.Lock.Conn(t, "t_lockapp")
		queries := postgres.Queries()
		pgtest.Prepares(t, conn, queries, files)
	})
}

// Acquire, renew, release and heartbeat are the specified statements.
//
// Clauses: K-2.6
// Mutation: change a word of queries/acquire.sql, renew.sql, release.sql or heartbeat.sql.
func TestNormativeStatements(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, postgres.QueryFiles())
	for name, file := range map[string]string{
		"acquire": "c1_1_3_acquire.sql", "renew": "c1_1_4_renew.sql", "release": "c1_1_4_release.sql", "heartbeat": "c1_1_4_heartbeat.sql",
	} {
		specified, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pgtest.Fold(string(specified)), pgtest.Fold(files[name])); diff != "" {
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
	pgtest.LeavesNoState(t, postgres.Queries())
}
