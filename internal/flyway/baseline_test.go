package flyway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A description is bounded in characters, as its column is, not in bytes.
//
// Mutation: count the description with len.
func TestBaselineDescriptionInCharacters(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	c := files(t, "V1__one.sql", "CREATE TABLE one (id int);")
	if err := open(t, db, c).Baseline(t.Context(), "1", strings.Repeat("ж", 201)); !errors.Is(err, flyway.ErrArgument) {
		t.Errorf("201 characters: %v, want refused", err)
	}
	if err := open(t, db, c).Baseline(t.Context(), "1", strings.Repeat("ж", 200)); err != nil {
		t.Errorf("200 characters: %v", err)
	}
}

// Clauses: K-9.1
// Mutation: write the baseline with a checksum, or let localState ignore it.
func TestBaseline(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		execute(t, db, `CREATE TABLE one (id int)`)
		c := files(t, "V1__one.sql", "CREATE TABLE one (id int);", "V2__two.sql", "CREATE TABLE two (id int);", "V3__three.sql", "CREATE TABLE three (id int);")
		if err := open(t, db, c).Baseline(t.Context(), "1", ""); err != nil {
			t.Fatal(err)
		}
		if err := open(t, db, c).Baseline(t.Context(), "1.0", ""); err != nil {
			t.Errorf("the same baseline again: %v", err)
		}
		if result := up(t, db, c); result.FromVersion != "1" || result.ToVersion != "3" {
			t.Errorf("up = %+v, want from 1 to 3", result)
		}
		want := []string{
			"1|1|<< Flyway Baseline >>|BASELINE|<< Flyway Baseline >>|-|dlock_owner|true",
			"2|2|two|SQL|V2__two.sql|" + sum(t, "CREATE TABLE two (id int);") + "|dlock_owner|true",
			"3|3|three|SQL|V3__three.sql|" + sum(t, "CREATE TABLE three (id int);") + "|dlock_owner|true",
		}
		if diff := cmp.Diff(want, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

// Clauses: K-9.1
// Mutation: return nil from baselined.
func TestBaselineRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t, base...)
		for _, version := range []string{"", "x", "1.", "-1", strings.Repeat("1", 51)} {
			if err := open(t, db, c).Baseline(t.Context(), version, ""); err == nil {
				t.Errorf("baseline %q: no error", version)
			}
		}
		if err := open(t, db, c).Baseline(t.Context(), "1", strings.Repeat("x", 201)); err == nil {
			t.Error("baseline with a long description: no error")
		}
		up(t, db, c)
		for sql, want := range map[string]string{
			`SELECT 1`: "already holds migrations",
			`UPDATE flyway_schema_history SET version = '7', type = 'BASELINE' WHERE installed_rank = 1`: "already baselined at version 7",
			`TRUNCATE flyway_schema_history`: "exists and is empty",
		} {
			execute(t, db, `BEGIN; CREATE TABLE IF NOT EXISTS kept AS TABLE flyway_schema_history; TRUNCATE flyway_schema_history;
			INSERT INTO flyway_schema_history TABLE kept; `+sql+`; COMMIT`)
			err := open(t, db, c).Baseline(t.Context(), "1", "")
			if refused, ok := errors.AsType[*flyway.HistoryError](err); !ok || !strings.Contains(err.Error(), want) || refused.Hint() == "" {
				t.Errorf("baseline after %s: %v, want %q and a hint", sql, err, want)
			}
		}
	})
}
