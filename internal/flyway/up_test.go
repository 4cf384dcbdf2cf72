package flyway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Golden rows, every column but the two that hold time.
//
// Clauses: K-9.1, K-9.5
// Mutation: in insert, write session_user instead of current_user.
func TestUpWritesFlywaysRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t,
			"V1__create_account.sql", "create table account(id bigint primary key, balance_minor bigint not null);\n",
			"V02__add_two_things.sql", "SELECT 1;",
			"R__b_view.sql", "SELECT 1;\n",
			"R__a_view.sql", "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;\n",
		)
		result := up(t, db, c)
		if got, want := len(result.Applied), 4; got != want {
			t.Errorf("applied %d files, want %d", got, want)
		}
		if result.FromVersion != "" || result.ToVersion != "02" {
			t.Errorf("moved from %q to %q, want from \"\" to \"02\"", result.FromVersion, result.ToVersion)
		}
		want := []string{
			"1|1|create account|SQL|V1__create_account.sql|1266176927|dlock_owner|true",
			"2|02|add two things|SQL|V02__add_two_things.sql|78787420|dlock_owner|true",
			"3|-|a view|SQL|R__a_view.sql|-861875769|dlock_owner|true",
			"4|-|b view|SQL|R__b_view.sql|78787420|dlock_owner|true",
		}
		if diff := cmp.Diff(want, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if owner := value[string](t, db, `SELECT tableowner FROM pg_tables WHERE tablename = 'account'`); owner != "dlock_owner" {
			t.Errorf("account belongs to %s, want dlock_owner", owner)
		}
		if again := up(t, db, c); len(again.Applied) != 0 {
			t.Errorf("second run applied %v, want nothing", again.Applied)
		}
	})
}

// A failing file leaves nothing, and the error has its place.
//
// Clauses: K-9.3
// Mutation: commit before execute's error is looked at.
func TestUpRollsBackAFailingFile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t,
			"V1__one.sql", "CREATE TABLE one (id int);",
			"V2__two.sql", "-- é\nCREATE TABLE two (id int);\nINSERT INTO two VALUES (1), (1);\n  SELECT nothing FROM two;\n",
		)
		_, err := open(t, db, c).Up(t.Context())
		failure, ok := errors.AsType[*flyway.MigrationError](err)
		if !ok {
			t.Fatalf("up: %v, want a MigrationError", err)
		}
		if failure.Line != 4 || failure.Column != 10 || failure.Dirty {
			t.Errorf("error at %d:%d dirty=%t, want 4:10 dirty=false", failure.Line, failure.Column, failure.Dirty)
		}
		if !strings.Contains(err.Error(), "V2__two.sql:4:10") {
			t.Errorf("error %q does not name file, line and column", err)
		}
		if diff := cmp.Diff([]string{"1|1|one|SQL|V1__one.sql|" + sum(t, "CREATE TABLE one (id int);") + "|dlock_owner|true"}, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if value[bool](t, db, `SELECT to_regclass('two') IS NOT NULL`) {
			t.Error("table two exists after the rollback")
		}
	})
}
