//go:build flyway

package flyway_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

// stages are what is added, turn by turn.
var stages = []map[string]string{
	{"V1__one.sql": "CREATE TABLE one (id int PRIMARY KEY);\n", "R__view.sql": "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;\n"},
	{"V02__two.sql": "-- é € \U0001F512\r\nCREATE TABLE two (id int);\r\n\r\nINSERT INTO two VALUES (1);"},
	{"V3__index.sql": "CREATE INDEX CONCURRENTLY two_idx ON two (id);\n", "R__a_1.sql": "SELECT 1;\n", "R__a1.sql": "SELECT 2;\n"},
	{"R__view.sql": "CREATE OR REPLACE VIEW v AS SELECT 2 AS x;\n", "V10__function.sql": "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  RETURN 1; -- ;\nEND;\n$$;\n"},
	{"V11__atomic.sql": "CREATE FUNCTION g() RETURNS int LANGUAGE sql\nBEGIN ATOMIC\n  SELECT CASE WHEN true THEN 1 ELSE 2 END;\nEND;\nCREATE TABLE three (id int);\n"},
	{"R__view.sql": "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;\n"},
}

// Two programs, one database, in either order: whoever writes a row, it is the same
// row; each finds the other's work valid and names every state as the other does.
//
// Clauses: K-9.1
// Mutation: change any column that insert writes.
func TestTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		var histories [][]string
		for _, order := range []string{"flyway dlockctl", "dlockctl flyway"} {
			s := b.stand(t, nil)
			s.sessionLock = true
			turns := strings.Fields(order)
			for i, stage := range stages {
				s.write(t, stage)
				if turns[i%2] == "flyway" {
					s.flyway(t, "migrate")
				} else {
					s.dlockctl(t)
				}
				agree(t, s)
			}
			histories = append(histories, s.history(t))
		}
		if diff := cmp.Diff(histories[0], histories[1]); diff != "" {
			t.Errorf("histories by order (-flyway first +dlockctl first):\n%s", diff)
		}
		if len(histories[0]) != 10 {
			t.Errorf("history has %d rows, want 10: %v", len(histories[0]), histories[0])
		}
	})
}

// agree fails unless both programs call the database valid and give every line of
// info the same state, and read the same history.
func agree(t *testing.T, s *stand) {
	t.Helper()
	report, err := s.open(t).Validate(t.Context())
	if err != nil || !report.Valid {
		t.Errorf("dlockctl validate = %+v, %v; want valid", report, err)
	}
	lines := s.flyway(t, "validate", "info", "history")
	if lines[0] != "valid|true" {
		t.Errorf("flyway validate: %v", lines)
	}
	want := s.info(t)
	for _, row := range s.history(t) {
		want = append(want, "history|"+row)
	}
	if diff := cmp.Diff(lines[1:], want); diff != "" {
		t.Errorf("info and history (-flyway +dlockctl):\n%s", diff)
	}
}

// The table that Flyway creates and the one that dlockctl creates are one table.
//
// Clauses: K-9.1
// Mutation: change a type, a default, a constraint's name or the index in create.
func TestSameTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		ours, theirs := b.stand(t, stages[0]), b.stand(t, stages[0])
		ours.dlockctl(t)
		theirs.flyway(t, "migrate")
		const description = `SELECT format('%s %s %s %s %s', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = 'flyway_schema_history'::regclass AND a.attnum > 0
		UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'flyway_schema_history'::regclass
		UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'flyway_schema_history'::regclass
		UNION ALL SELECT relname || ' of ' || relowner::regrole FROM pg_class WHERE relname LIKE 'flyway%'
		ORDER BY 1`
		if diff := cmp.Diff(theirs.query(t, description), ours.query(t, description)); diff != "" {
			t.Errorf("tables (-flyway +dlockctl):\n%s", diff)
		}
	})
}

// A baseline of one program is a baseline to the other.
//
// Clauses: K-9.1
// Mutation: write another script into the baseline's row.
func TestBaselineTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		files := map[string]string{"V1__one.sql": "CREATE TABLE one (id int);", "V2__two.sql": "CREATE TABLE two (id int);", "V3__three.sql": "CREATE TABLE three (id int);"}
		var histories [][]string
		for _, first := range []string{"flyway", "dlockctl"} {
			s := b.stand(t, files)
			s.execute(t, "CREATE TABLE one (id int)")
			if first == "flyway" {
				s.flyway(t, "baseline:2")
				s.dlockctl(t)
			} else {
				if err := s.open(t).Baseline(t.Context(), "2", ""); err != nil {
					t.Fatal(err)
				}
				s.flyway(t, "baseline:2", "migrate")
			}
			agree(t, s)
			histories = append(histories, s.history(t))
		}
		if diff := cmp.Diff(histories[0], histories[1]); diff != "" {
			t.Errorf("histories by order (-flyway first +dlockctl first):\n%s", diff)
		}
	})
}

// A failed CREATE INDEX CONCURRENTLY of one program stops the other, and either can
// repair it.
//
// Clauses: K-9.1, K-9.3
// Mutation: write the failed row with success = TRUE, or not at all.
func TestFailedTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		var failed, repaired [][]string
		for _, first := range []string{"flyway", "dlockctl"} {
			s := b.stand(t, map[string]string{"V1__one.sql": "CREATE TABLE one (id int); INSERT INTO one VALUES (1), (1);"})
			s.sessionLock = true
			s.dlockctl(t)
			s.write(t, map[string]string{"V2__index.sql": "CREATE UNIQUE INDEX CONCURRENTLY one_idx ON one (id);", "V3__more.sql": "SELECT 1;"})
			if first == "flyway" {
				_, err := s.peer.ask(s, "migrate")
				if err == nil || !strings.Contains(err.Error(), "could not create unique index") {
					t.Fatalf("flyway migrate: %v, want the index to fail", err)
				}
				_, err = s.open(t).Up(t.Context())
				if refused, ok := errors.AsType[*flyway.HistoryError](err); !ok || refused.Findings[0].Kind != flyway.KindFailed {
					t.Errorf("dlockctl up over Flyway's failure: %v, want a HistoryError", err)
				}
			} else {
				_, err := s.open(t).Up(t.Context())
				if failure, ok := errors.AsType[*flyway.MigrationError](err); !ok || !failure.Dirty {
					t.Fatalf("dlockctl up: %v, want a dirty MigrationError", err)
				}
				lines := s.flyway(t, "validate")
				if !slices.Contains(lines, "invalid|2|index|FAILED_VERSIONED_MIGRATION") {
					t.Errorf("flyway validate over dlockctl's failure: %v", lines)
				}
			}
			failed = append(failed, s.history(t))
			if diff := cmp.Diff(s.flyway(t, "info"), s.info(t)); diff != "" {
				t.Errorf("info (-flyway +dlockctl):\n%s", diff)
			}

			s.execute(t, "DELETE FROM one")
			s.execute(t, "DROP INDEX CONCURRENTLY one_idx")
			if first == "flyway" { // the one that did not fail repairs
				if plan, err := s.open(t).Repair(t.Context(), false); err != nil || len(plan.Remove) != 1 {
					t.Fatalf("dlockctl repair = %+v, %v", plan, err)
				}
				s.flyway(t, "migrate")
			} else {
				s.flyway(t, "repair")
				s.dlockctl(t)
			}
			agree(t, s)
			repaired = append(repaired, s.history(t))
		}
		if diff := cmp.Diff(failed[0], failed[1]); diff != "" {
			t.Errorf("failed histories (-flyway +dlockctl):\n%s", diff)
		}
		if diff := cmp.Diff(repaired[0], repaired[1]); diff != "" {
			t.Errorf("repaired histories (-flyway +dlockctl):\n%s", diff)
		}
	})
}

// A database ahead of one program's files: both go on, and both say Future.
//
// Clauses: K-9.1
// Mutation: let a future row block Up.
func TestFutureTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		for _, ahead := range []string{"flyway", "dlockctl"} {
			s := b.stand(t, map[string]string{"V1__one.sql": "SELECT 1;", "V7__seven.sql": "SELECT 7;"})
			if ahead == "flyway" {
				s.flyway(t, "migrate")
			} else {
				s.dlockctl(t)
			}
			s.remove(t, "V7__seven.sql")
			s.dlockctl(t)
			if lines := s.flyway(t, "migrate"); lines[0] != "migrated|0" {
				t.Errorf("flyway migrate over a future row: %v", lines)
			}
			agree(t, s)
			if last := s.info(t)[1]; last != "info|Versioned|7|seven|SQL|Future" {
				t.Errorf("last line of info is %s, want V7 in the future", last)
			}
		}
	})
}

// Both refuse the same disagreements, and both repairs write the same rows.
//
// Clauses: K-9.1, K-9.3
// Mutation: leave edited or missing files out of judge or planRepair.
func TestRepairTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		var histories [][]string
		for _, by := range []string{"flyway", "dlockctl"} {
			s := b.stand(t, map[string]string{
				"V1__one.sql": "SELECT 1;", "V2__two.sql": "SELECT 2;", "V3__three.sql": "SELECT 3;", "V9__nine.sql": "SELECT 9;",
				"R__gone.sql": "SELECT 1;", "R__stays.sql": "SELECT 1;",
			})
			s.dlockctl(t)
			s.remove(t, "V2__two.sql", "V3__three.sql", "V9__nine.sql", "R__gone.sql")
			s.write(t, map[string]string{"V1__one.sql": "SELECT 'edited';", "V3__drei.sql": "SELECT 3;", "V4__late.sql": "SELECT 4;", "R__stays.sql": "SELECT 2;"})

			report, err := s.open(t).Validate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lines := s.flyway(t, "validate", "info")
			invalid := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, "invalid|") })
			for _, kind := range []string{
				"1|one|CHECKSUM_MISMATCH", "2|two|APPLIED_VERSIONED_MIGRATION_NOT_RESOLVED", "3|three|DESCRIPTION_MISMATCH",
				"4|late|RESOLVED_VERSIONED_MIGRATION_NOT_APPLIED", "|gone|APPLIED_REPEATABLE_MIGRATION_NOT_RESOLVED",
			} {
				if !slices.Contains(invalid, "invalid|"+kind) {
					t.Errorf("flyway validate: %v, want %s", invalid, kind)
				}
			}
			kinds := map[string]flyway.Kind{}
			for _, f := range report.Findings {
				kinds[f.Script] = f.Kind
			}
			want := map[string]flyway.Kind{
				"V1__one.sql": flyway.KindEdited, "V2__two.sql": flyway.KindMissing, "V3__drei.sql": flyway.KindRenamed,
				"V4__late.sql": flyway.KindLate, "R__gone.sql": flyway.KindMissing, "R__stays.sql": flyway.KindOutdated, "V9__nine.sql": flyway.KindFuture,
			}
			if diff := cmp.Diff(want, kinds); diff != "" {
				t.Errorf("dlockctl's findings (-want +got):\n%s", diff)
			}
			info := slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "info|") })
			if diff := cmp.Diff(info, s.info(t)); diff != "" {
				t.Errorf("info (-flyway +dlockctl):\n%s", diff)
			}

			if by == "flyway" {
				s.flyway(t, "repair")
			} else if _, err := s.open(t).Repair(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			histories = append(histories, s.history(t))
			if diff := cmp.Diff(s.flyway(t, "info"), s.info(t)); diff != "" {
				t.Errorf("info after repair (-flyway +dlockctl):\n%s", diff)
			}
		}
		if diff := cmp.Diff(histories[0], histories[1]); diff != "" {
			t.Errorf("repaired histories (-flyway +dlockctl):\n%s", diff)
		}
	})
}

// Every state that rows of Flyway's can have, named by both.
//
// Clauses: K-9.1
// Mutation: change any case of stateOf, or infoOrder.
func TestSameStates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		s := b.stand(t, map[string]string{
			"V1__one.sql": "SELECT 1;", "V2__two.sql": "SELECT 2;", "V3__three.sql": "SELECT 3;", "V04__four.sql": "SELECT 4;", "V5__five.sql": "SELECT 5;",
			"V6__six.sql": "SELECT 6;", "V8__eight.sql": "SELECT 8;", "V100__last.sql": "SELECT 8;", "R__r.sql": "SELECT 1;", "R__new.sql": "SELECT 1;", "R__bad.sql": "SELECT 1;",
		})
		s.flyway(t, "baseline:2")
		s.execute(t, `UPDATE flyway_schema_history SET installed_rank = 1; INSERT INTO flyway_schema_history VALUES
		(0, NULL, '<< Flyway Schema Creation >>', 'SCHEMA', '"public"', NULL, 'f', now(), 0, true),
		(2, '3', 'three', 'SQL', 'V3__three.sql', 3, 'f', now(), 1, true),
		(3, '5', 'five', 'SQL', 'V5__five.sql', 5, 'f', now(), 1, true),
		(4, '4.0', 'four', 'SQL', 'V4_0__four.sql', 4, 'f', now(), 1, true),
		(5, '6', 'six', 'SQL', 'V6__six.sql', 6, 'f', now(), 1, true),
		(6, '6', 'six', 'DELETE', 'V6__six.sql', 6, 'f', now(), 0, true),
		(7, NULL, 'r', 'SQL', 'R__r.sql', 1, 'f', now(), 1, true),
		(8, NULL, 'r', 'SQL', 'R__r.sql', 2, 'f', now(), 1, true),
		(9, NULL, 'gone', 'SQL', 'R__gone.sql', 9, 'f', now(), 1, true),
		(10, NULL, 'gone', 'DELETE', 'R__gone.sql', 9, 'f', now(), 0, true),
		(11, '7', 'seven', 'JDBC', 'db.V7__seven', NULL, 'f', now(), 1, true),
		(12, '7.1', 'index', 'SQL', 'V7_1__index.sql', 1, 'f', now(), 1, false),
		(13, '99', 'newer', 'SQL', 'V99__newer.sql', 1, 'f', now(), 1, true),
		(14, NULL, 'bad', 'SQL', 'R__bad.sql', 1, 'f', now(), 1, false),
		(15, '101', 'future', 'SQL', 'V101__future.sql', 1, 'f', now(), 1, true),
		(16, '102', 'failed future', 'SQL', 'V102__failed_future.sql', 1, 'f', now(), 1, false),
		(17, '1', 'one', 'SQL', 'V1__one.sql', 1, 'f', now(), 1, true)`)
		if diff := cmp.Diff(s.flyway(t, "info"), s.info(t)); diff != "" {
			t.Errorf("info (-flyway +dlockctl):\n%s", diff)
		}
	})
}

// The checksums of the vectors, computed by this Flyway.
//
// Clauses: K-9.1
// Mutation: any of those of TestChecksumVectors.
func TestSameChecksums(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"V01__.sql": "", "V02__.sql": "\n\r\n\r", "V03__.sql": "\xEF\xBB\xBF", "V04__.sql": "\xEF\xBB\xBFSELECT 1;\r\n",
		"V05__.sql": "CREATE TABLE t (id bigint PRIMARY KEY);\rINSERT INTO t VALUES (1);\r\r\n", "V06__.sql": "SELECT 1; \n", "V07__.sql": "\tSELECT 1;\n",
		"V08__.sql": "COMMENT ON TABLE t IS 'Zahlung \u2013 \u20ac \u00e9';\n", "V09__.sql": "SELECT '\U0001F512';\n",
		"V10__.sql": "\n\xEF\xBB\xBFSELECT 1;\n", "V11__.sql": "\xEF\xBB\xBF\xEF\xBB\xBFSELECT 1;\n",
		"V12__.sql": "SELECT 1;\u0085SELECT 2;\u2028SELECT 3;\x0bSELECT 4;\x0c\n", "V13__.sql": "SELECT 1;\x00\n",
		"V14__.sql": "-- " + strings.Repeat("x", 10000) + "\nSELECT 1;\n", "V15__.sql": strings.Repeat("x", 4095) + "\r\nSELECT 1;\n", "V16__.sql": "123456789\n",
	}
	each(t, func(t *testing.T, b bench) {
		s := b.stand(t, texts)
		var want []string
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			sum, err := flyway.Checksum([]byte(texts[name]))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("checksum|%s|%d", name, sum))
		}
		if diff := cmp.Diff(s.flyway(t, "checksums"), want); diff != "" {
			t.Errorf("checksums (-flyway +dlockctl):\n%s", diff)
		}
	})
}

// The project's own migrations, applied by each and validated by both.
//
// Clauses: K-9.1, K-9.2, K-9.4
// Mutation: put a placeholder into a migration.
func TestOwnMigrations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		for _, locations := range [][]string{{"lockdb"}, {"paydb", "seed/paydb"}} {
			var dirs []string
			for _, location := range locations {
				dir, err := filepath.Abs(filepath.Join("..", "..", "migrations", filepath.FromSlash(location)))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(dir); err != nil {
					t.Fatal(err)
				}
				dirs = append(dirs, dir)
			}
			theirs, ours := &stand{peer: b.peer, db: b.server.EmptyDB(t), dirs: dirs}, &stand{peer: b.peer, db: b.server.EmptyDB(t), dirs: dirs}
			theirs.flyway(t, "migrate")
			ours.dlockctl(t)
			agree(t, theirs)
			agree(t, ours)
			if diff := cmp.Diff(theirs.history(t), ours.history(t)); diff != "" {
				t.Errorf("%v histories (-flyway +dlockctl):\n%s", locations, diff)
			}
		}
	})
}
