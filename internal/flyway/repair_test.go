package flyway_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Repair removes failed rows, marks missing migrations deleted, accepts edited
// files, and leaves future rows alone, as Flyway's does; a dry run changes nothing.
//
// Clauses: K-9.1, K-9.3
// Mutation: treat a future row as missing in planRepair.
func TestRepair(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, "V1__one.sql", "SELECT 1;", "V2__two.sql", "SELECT 2;", "V3__three.sql", "SELECT 3;",
			"V9__nine.sql", "SELECT 9;", "R__gone.sql", "SELECT 1;", "R__stays.sql", "SELECT 1;"))
		execute(t, db, `INSERT INTO flyway_schema_history VALUES (7, '10', 'ten', 'SQL', 'V10__ten.sql', 1, 'f', now(), 5, false)`)
		c := files(t, "V1__one.sql", "SELECT 'edited';", "V3__drei.sql", "SELECT 3;", "R__stays.sql", "SELECT 2;")
		before := history(t, db)

		plan, err := open(t, db, c).Repair(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, history(t, db)); diff != "" {
			t.Errorf("a dry run changed the history (-before +after):\n%s", diff)
		}
		again, err := open(t, db, c).Repair(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		again.Applied = false
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Errorf("the dry run told another plan (-dry +real):\n%s", diff)
		}
		want := []string{
			"1|1|one|SQL|V1__one.sql|" + sum(t, "SELECT 'edited';") + "|dlock_owner|true",
			"2|2|two|SQL|V2__two.sql|" + sum(t, "SELECT 2;") + "|dlock_owner|true",
			"3|3|drei|SQL|V3__three.sql|" + sum(t, "SELECT 3;") + "|dlock_owner|true",
			"4|9|nine|SQL|V9__nine.sql|" + sum(t, "SELECT 9;") + "|dlock_owner|true",
			"5|-|gone|SQL|R__gone.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
			"6|-|stays|SQL|R__stays.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
			"7|2|two|DELETE|V2__two.sql|" + sum(t, "SELECT 2;") + "|dlock_owner|true",
			"8|-|gone|DELETE|R__gone.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
		}
		if diff := cmp.Diff(want, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if result := up(t, db, c); len(result.Applied) != 1 || result.Applied[0].Script != "R__stays.sql" {
			t.Errorf("after repair applied %v, want the changed repeatable alone", result.Applied)
		}
		if plan, err = open(t, db, c).Repair(t.Context(), false); err != nil || !plan.Empty() || plan.Applied {
			t.Errorf("second repair = %+v, %v; want nothing to do", plan, err)
		}
	})
}

// A deleted version whose file returns is pending again.
//
// Mutation: do not mark rows deleted in markDeleted.
func TestDeletedVersionReturns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		both := files(t, "V1__one.sql", "SELECT 1;", "V2__two.sql", "SELECT 2;")
		up(t, db, both)
		execute(t, db, `INSERT INTO flyway_schema_history SELECT 3, version, description, 'DELETE', script, checksum, installed_by, now(), 0, true
		FROM flyway_schema_history WHERE version = '2'`)
		if result := up(t, db, both); len(result.Applied) != 1 || result.FromVersion != "1" {
			t.Errorf("up = %+v, want V2 applied again from version 1", result)
		}
	})
}

// Repair waits for the lock, unlike Flyway's.
//
// Mutation: begin instead of acquire in Repair.
func TestRepairTakesTheLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t, base...)
		up(t, db, c)
		hold(t, db.Conn(t, "super"), "pg_advisory_lock")
		m := open(t, db, c, func(_ *pgx.ConnConfig, o *flyway.Options) { o.LockTimeout = 300 * time.Millisecond })
		if _, err := m.Repair(t.Context(), false); !isLocked(err) {
			t.Errorf("repair: %v, want a LockError", err)
		}
		if err := m.Baseline(t.Context(), "1", ""); !isLocked(err) {
			t.Errorf("baseline: %v, want a LockError", err)
		}
	})
}

func isLocked(err error) bool {
	_, ok := errors.AsType[*flyway.LockError](err)
	return ok
}
