package flyway_test

import (
	"testing"

	"github.com/golang-migrate/migrate/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Whatever golang-migrate offers besides going up is refused and changes nothing.
//
// Clauses: K-9.1
// Mutation: let SetVersion return nil, or Drop.
func TestEngineHasNoOtherWay(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(*migrate.Migrate) error{
		"down":         (*migrate.Migrate).Down,
		"drop":         (*migrate.Migrate).Drop,
		"force":        func(e *migrate.Migrate) error { return e.Force(1) },
		"force beyond": func(e *migrate.Migrate) error { return e.Force(9) },
		"one back":     func(e *migrate.Migrate) error { return e.Steps(-1) },
		"to the first": func(e *migrate.Migrate) error { return e.Migrate(1) },
		"to the third": func(e *migrate.Migrate) error {
			m, err := migrate.NewMigration(nil, "", 3, 3)
			if err != nil {
				return err
			}
			return e.Run(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db pgtest.DB) {
				up(t, db, files(t, base...))
				before := history(t, db)
				for _, c := range []*flyway.Catalogue{
					files(t, base...), // nothing is pending
					files(t, with("V4__four.sql", "CREATE TABLE four (id int);", "V5__five.sql", "CREATE TABLE five (id int);")...),
				} {
					engine, err := flyway.Engine(t.Context(), open(t, db, c))
					if err != nil {
						t.Fatal(err)
					}
					if err := misuse(engine); err == nil {
						t.Error("no error")
					}
					if diff := cmp.Diff(before, history(t, db)); diff != "" {
						t.Errorf("the history changed (-before +after):\n%s", diff)
					}
					if !value[bool](t, db, `SELECT to_regclass('three') IS NOT NULL`) {
						t.Error("a table is gone")
					}
				}
			})
		})
	}
}
