package flyway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

var base = []string{
	"V1__one.sql", "CREATE TABLE one (id int);",
	"V3__three.sql", "CREATE TABLE three (id int);",
	"R__view.sql", "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;",
}

func with(more ...string) []string { return append(append([]string{}, base...), more...) }

// Up refuses, says which version and file and how to go on, and runs nothing, not
// even the files that would be next.
//
// Clauses: K-9.1, K-9.3
// Mutation: for each case, drop its state from judge.
func TestUpRefuses(t *testing.T) {
	t.Parallel()
	next := []string{"V4__next.sql", "CREATE TABLE next (id int);"}
	for name, tc := range map[string]struct {
		files   []string // beside next
		history string   // SQL over the history of base
		kind    flyway.Kind
		message string
	}{
		"edited": {
			files: []string{base[0], base[1] + " -- changed", base[2], base[3], base[4], base[5]},
			kind:  flyway.KindEdited, message: "version 1 (V1__one.sql) was edited",
		},
		"renamed": {
			files: []string{"V1__uno.sql", base[1], base[2], base[3], base[4], base[5]},
			kind:  flyway.KindRenamed, message: `version 1 (V1__uno.sql) was renamed after it was applied (from "one")`,
		},
		"missing version": {
			files: base[2:], kind: flyway.KindMissing, message: "version 1 (V1__one.sql) is applied, but its file is missing",
		},
		"missing repeatable": {
			files: base[:4], kind: flyway.KindMissing, message: "repeatable R__view.sql is applied, but its file is missing",
		},
		"late": {
			files: with("V2__two.sql", "CREATE TABLE two (id int);"),
			kind:  flyway.KindLate, message: "version 2 (V2__two.sql) is not applied, but version 3 already is",
		},
		"failed": {
			files: base, history: `UPDATE flyway_schema_history SET success = false WHERE version = '3'`,
			kind: flyway.KindFailed, message: "version 3 (V3__three.sql) failed",
		},
		"failed future": {
			files: base, history: `INSERT INTO flyway_schema_history VALUES (9, '9', 'nine', 'SQL', 'V9__nine.sql', 1, 'x', now(), 1, false)`,
			kind: flyway.KindFailed, message: "version 9 (V9__nine.sql) failed",
		},
		"undo row": {
			files: base, history: `INSERT INTO flyway_schema_history VALUES (9, '3', 'three', 'UNDO_SQL', 'U3__three.sql', 1, 'x', now(), 1, true)`,
			kind: flyway.KindUnknown, message: "is a row of type UNDO_SQL",
		},
		"deleted twice": {
			files: base, history: `INSERT INTO flyway_schema_history SELECT 8 + n, '1', 'one', 'DELETE', 'V1__one.sql', NULL, 'x', now(), 0, true
			FROM generate_series(1, 2) n`,
			kind: flyway.KindCorrupt, message: "version 1 is deleted twice",
		},
		"not a version": {
			files: base, history: `INSERT INTO flyway_schema_history VALUES (9, 'x.1', 'nine', 'SQL', 'V9__nine.sql', 1, 'x', now(), 1, true)`,
			kind: flyway.KindCorrupt, message: `version "x.1" is not made of digits and dots`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db pgtest.DB) {
				up(t, db, files(t, base...))
				if tc.history != "" {
					execute(t, db, tc.history)
				}
				before := history(t, db)
				_, err := open(t, db, files(t, append(append([]string{}, tc.files...), next...)...)).Up(t.Context())
				refused, ok := errors.AsType[*flyway.HistoryError](err)
				if !ok {
					t.Fatalf("up: %v, want a HistoryError", err)
				}
				if got := refused.Findings[0]; got.Kind != tc.kind || !strings.Contains(got.Message, tc.message) || got.Hint == "" {
					t.Errorf("first finding = %+v, want kind %s, %q and a hint", got, tc.kind, tc.message)
				}
				if diff := cmp.Diff(before, history(t, db)); diff != "" {
					t.Errorf("a refused run changed the history (-before +after):\n%s", diff)
				}
				if value[bool](t, db, `SELECT to_regclass('next') IS NOT NULL`) {
					t.Error("a refused run applied V4")
				}
			})
		})
	}
}

// A database ahead of its binary is no error, as in Flyway: rolling back a release
// must not stop a service.
//
// Clauses: K-9.1
// Mutation: give StateFuture the severity error.
func TestUpToleratesFuture(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, with("V9__nine.sql", "CREATE TABLE nine (id int);")...))
		result := up(t, db, files(t, base...))
		if len(result.Applied) != 0 || len(result.Warnings) != 1 || result.Warnings[0].Kind != flyway.KindFuture {
			t.Errorf("up over a future version = %+v, want nothing applied and one warning", result)
		}
		report, err := open(t, db, files(t, base...)).Validate(t.Context())
		if err != nil || !report.Valid {
			t.Errorf("validate over a future version = %+v, %v; want valid", report, err)
		}
	})
}

// A schema that holds something without a history may hold what V1 creates.
//
// Clauses: K-9.1
// Mutation: take the emptySchema check out of ensureHistory.
func TestUpRefusesUnmanagedSchema(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"table":    `CREATE TABLE other (id int)`,
		"sequence": `CREATE SEQUENCE other`,
		"type":     `CREATE TYPE other AS ENUM ('a')`,
		"function": `CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db pgtest.DB) {
				execute(t, db, sql)
				_, err := open(t, db, files(t, base...)).Up(t.Context())
				refused, ok := errors.AsType[*flyway.HistoryError](err)
				if !ok || refused.Findings[0].Kind != flyway.KindUnmanaged {
					t.Fatalf("up: %v, want a HistoryError about an unmanaged schema", err)
				}
				if value[bool](t, db, `SELECT to_regclass('flyway_schema_history') IS NOT NULL`) {
					t.Error("a refused run created the history")
				}
			})
		})
	}
}

// Objects of an extension do not make a schema somebody's.
//
// Mutation: drop the pg_depend join of emptySchema.
func TestUpAcceptsAnExtension(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		extension := value[string](t, db, `SELECT coalesce((SELECT name FROM pg_available_extensions
		WHERE name IN ('pgcrypto', 'hstore', 'citext') ORDER BY name LIMIT 1), '')`)
		if extension == "" {
			t.Fatal("this PostgreSQL has none of the contrib extensions")
		}
		execute(t, db, `CREATE EXTENSION `+extension)
		if result := up(t, db, files(t, base...)); len(result.Applied) != 3 {
			t.Errorf("applied %v, want three files", result.Applied)
		}
	})
}

// K-9.4: the seed stands in a location of its own. With it nothing is missing;
// without it the applied seed is, exactly as for Flyway.
//
// Clauses: K-9.4
// Mutation: drop StateMissing from judge.
func TestSeedLocation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		schema := folder("V1__one.sql", "CREATE TABLE one (id int);")
		seed := folder("R__seed_accounts.sql", "INSERT INTO one VALUES (1);")
		both, err := flyway.Load(schema, seed)
		if err != nil {
			t.Fatal(err)
		}
		if result := up(t, db, both); len(result.Applied) != 2 {
			t.Fatalf("applied %v, want both files", result.Applied)
		}
		if result := up(t, db, both); len(result.Applied) != 0 {
			t.Errorf("applied %v again", result.Applied)
		}
		_, err = open(t, db, files(t, "V1__one.sql", "CREATE TABLE one (id int);")).Up(t.Context())
		if refused, ok := errors.AsType[*flyway.HistoryError](err); !ok || refused.Findings[0].Kind != flyway.KindMissing {
			t.Errorf("up without the seed's location: %v, want it missing", err)
		}
	})
}

// A changed repeatable runs again, also when it changes back.
//
// Clauses: K-9.1
// Mutation: compare with any earlier run instead of the latest in addPending.
func TestRepeatableRunsAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		for i, text := range []string{"SELECT 1;", "SELECT 2;", "SELECT 2;\r\n", "SELECT 1;"} {
			want := 1
			if i == 2 {
				want = 0 // only the line end changed
			}
			if result := up(t, db, files(t, "R__x.sql", text)); len(result.Applied) != want {
				t.Errorf("run %d applied %d files, want %d", i, len(result.Applied), want)
			}
		}
		want := []string{
			"1|-|x|SQL|R__x.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
			"2|-|x|SQL|R__x.sql|" + sum(t, "SELECT 2;") + "|dlock_owner|true",
			"3|-|x|SQL|R__x.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
		}
		if diff := cmp.Diff(want, history(t, db)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}
