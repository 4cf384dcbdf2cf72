//go:build unix

package pgtest_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// After Freeze, what no COMMIT waited for reaches no disk, however long it takes;
// what one waited for does, and the crash leaves a server that starts again.
//
// Mutation: send no SIGSTOP in Freeze.
func TestFreeze(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, major int) {
		single := pgtest.Crashable(t, major)
		db := single.EmptyDB(t)
		conn := db.Conn(t, "t_owner")
		if _, err := conn.Exec(t.Context(), "CREATE TABLE t (kept BOOL)"); err != nil {
			t.Fatal(err)
		}
		single.Freeze(t)
		for _, sql := range []string{
			"INSERT INTO t VALUES (true)",
			"SET synchronous_commit = off",
			"INSERT INTO t VALUES (false)",
			"SELECT pg_sleep(1)", // the WAL writer would have written it after a fifth of that
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		single.Crash(t)
		single.Start(t)
		var kept, lost int
		if err := db.Conn(t, "t_owner").QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE kept), count(*) FILTER (WHERE NOT kept) FROM t").Scan(&kept, &lost); err != nil {
			t.Fatal(err)
		}
		if kept != 1 || lost != 0 {
			t.Errorf("%d of one row that was waited for and %d of one that was not", kept, lost)
		}
	})
}
