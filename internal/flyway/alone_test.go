package flyway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

const (
	makeTable = "CREATE TABLE one (id int);"
	makeIndex = "-- one value once\nCREATE UNIQUE INDEX CONCURRENTLY one_idx ON one (id);"
)

// Clauses: K-9.1, K-9.5
// Mutation: keep the transaction open in keepLock.
func TestIndexConcurrently(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		result := up(t, db, files(t, "V1__table.sql", makeTable, "V2__index.sql", makeIndex, "V3__more.sql", "SELECT 1;"))
		if len(result.Applied) != 3 {
			t.Errorf("applied %v, want three files", result.Applied)
		}
		if !value[bool](t, db, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'one_idx'::regclass`) {
			t.Error("the index is not valid")
		}
		want := []string{
			"1|1|table|SQL|V1__table.sql|" + sum(t, makeTable) + "|dlock_owner|true",
			"2|2|index|SQL|V2__index.sql|" + sum(t, makeIndex) + "|dlock_owner|true",
			"3|3|more|SQL|V3__more.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
		}
		if diff := cmp.Diff(want, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if owner := value[string](t, db, `SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'one_idx'`); owner != "dlock_owner" {
			t.Errorf("index belongs to %s, want dlock_owner", owner)
		}
	})
}

// What cannot be rolled back is said exactly, recorded as Flyway records it, and
// stops everything until it was repaired.
//
// Clauses: K-9.3
// Mutation: do not insert the failed row in dirty.
func TestIndexConcurrentlyFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t, "V1__table.sql", makeTable, "V2__index.sql", makeIndex, "V3__more.sql", "SELECT 1;")
		up(t, db, files(t, "V1__table.sql", makeTable))
		execute(t, db, `INSERT INTO one VALUES (1), (1)`)

		_, err := open(t, db, c).Up(t.Context())
		failure, ok := errors.AsType[*flyway.MigrationError](err)
		if !ok || !failure.Dirty || failure.Line != 2 {
			t.Fatalf("up: %#v, want a dirty MigrationError at line 2", err)
		}
		if !strings.Contains(failure.Leftover, "DROP INDEX CONCURRENTLY public.one_idx") {
			t.Errorf("left behind %q, want the invalid index and how to drop it", failure.Leftover)
		}
		failed := "2|2|index|SQL|V2__index.sql|" + sum(t, makeIndex) + "|dlock_owner|false"
		if rows := history(t, db); len(rows) != 2 || rows[1] != failed {
			t.Errorf("history %v, want the failed row %s", rows, failed)
		}
		_, err = open(t, db, c).Up(t.Context())
		if refused, ok := errors.AsType[*flyway.HistoryError](err); !ok || refused.Findings[0].Kind != flyway.KindFailed {
			t.Fatalf("up over a failed row: %v, want a HistoryError", err)
		}

		plan, err := open(t, db, c).Repair(t.Context(), true)
		if err != nil || len(plan.Remove) != 1 || plan.Applied {
			t.Fatalf("repair dry run = %+v, %v; want one row to remove", plan, err)
		}
		if diff := cmp.Diff([]string{"public.one_idx"}, plan.Leftover); diff != "" {
			t.Errorf("leftover (-want +got):\n%s", diff)
		}
		if rows := history(t, db); rows[len(rows)-1] != failed {
			t.Errorf("a dry run changed the history: %v", rows)
		}
		execute(t, db, `DELETE FROM one`)
		execute(t, db, `DROP INDEX CONCURRENTLY one_idx`)
		if plan, err = open(t, db, c).Repair(t.Context(), false); err != nil || !plan.Applied {
			t.Fatalf("repair = %+v, %v; want applied", plan, err)
		}
		if result := up(t, db, c); result.ToVersion != "3" {
			t.Errorf("after repair went to %q, want 3", result.ToVersion)
		}
	})
}

// IF NOT EXISTS is content with an invalid index; the migrator is not.
//
// Clauses: K-9.3
// Mutation: take checkIndexes out of runAlone.
func TestIndexConcurrentlyInvalid(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, "V1__table.sql", makeTable))
		execute(t, db, `INSERT INTO one VALUES (1), (1)`)
		if _, err := db.Conn(t, "super").Exec(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY one_idx ON one (id)`); err == nil {
			t.Fatal("the duplicate index was created")
		}
		execute(t, db, `DELETE FROM one`)
		_, err := open(t, db, files(t, "V1__table.sql", makeTable,
			"V2__index.sql", "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS one_idx ON one (id);")).Up(t.Context())
		failure, ok := errors.AsType[*flyway.MigrationError](err)
		if !ok || !failure.Dirty || !strings.Contains(err.Error(), "index public.one_idx exists but is not valid") {
			t.Errorf("up: %v, want a dirty error about the invalid index", err)
		}
	})
}
