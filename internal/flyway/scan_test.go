package flyway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

// Clauses: K-9.1, K-9.3
// Mutation: take checkStatements or checkText out of loadFile.
func TestLoadRefusesTexts(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		text, want string
		line       int
	}{
		"begin":             {"SELECT 1;\nBEGIN;\nSELECT 1;\nCOMMIT;", "BEGIN is not for a migration", 2},
		"begin lower case":  {"begin;", "BEGIN is not", 1},
		"commit":            {"SELECT 1; commit;", "COMMIT is not", 1},
		"end":               {"SELECT 1;\nEND;", "END is not", 2},
		"rollback":          {"-- x\n/* y\n*/ ROLLBACK", "ROLLBACK is not", 3},
		"abort":             {"ABORT", "ABORT is not", 1},
		"savepoint":         {"SAVEPOINT s", "SAVEPOINT is not", 1},
		"start":             {"START\nTRANSACTION", "START TRANSACTION is not", 1},
		"prepare":           {"PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION is not", 1},
		"after a function":  {"CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC\nSELECT CASE WHEN true THEN 1 END;\nEND;\nCOMMIT;", "COMMIT is not", 4},
		"after a tag":       {"DO $a$ BEGIN $b$ ; $b$ END $a$;\nBEGIN;", "BEGIN is not", 2},
		"after E''":         {"SELECT E'it\\'s';\nBEGIN;", "BEGIN is not", 2},
		"after a backslash": {"SELECT '\\';\nBEGIN;", "BEGIN is not", 2},
		"after a quote":     {"SELECT 'it''s', \"a\"\"b\";\nBEGIN;", "BEGIN is not", 2},
		"after a comment":   {"/* /* */ ; */ BEGIN;", "BEGIN is not", 1},
		"after a return":    {"SELECT 1 -- x\r; COMMIT;", "COMMIT is not", 1},
		"after E'' 'E''":    {"SELECT E'a'\n  'b\\''; COMMIT; -- '\n", "COMMIT is not", 2},
		"an atomic name":    {"SELECT begin atomic FROM (SELECT 1 AS begin) t; COMMIT;", "COMMIT is not", 1},
		"placeholder":       {"-- x\n-- ${schema}\nSELECT 1;", "${", 2},
		"psql":              {"SELECT 1;\n\\i other.sql\n", "psql command", 2},
		"copy":              {"COPY t (a, b) FROM STDIN;\n1\t2\n\\.\n", "psql command", 3},
		"copy alone":        {"SELECT 1;\nCOPY t FROM\nstdin;\n", "COPY through the client", 2},
		"mixed kinds":       {"CREATE TABLE t (a int);\nCREATE INDEX CONCURRENTLY i ON t (a);", "CREATE INDEX CONCURRENTLY … cannot run in a transaction", 2},
		"two alone":         {"VACUUM;\nVACUUM;", "give it a file of its own", 1},
		"reindex":           {"REINDEX (CONCURRENTLY) TABLE t;", "Flyway does not see that", 1},
		"detach":            {"ALTER TABLE t DETACH PARTITION p CONCURRENTLY;", "Flyway does not see that", 1},
		"empty":             {"", "holds no statement", 1},
		"only comments":     {"-- nothing\n/* yet */ ;;\n", "holds no statement", 1},
		"open string":       {"SELECT 1;\nSELECT 'x", "unterminated string", 2},
		"open name":         {"SELECT \"x", "unterminated quoted name", 1},
		"open body":         {"\nDO $x$ BEGIN END $y$;", "unterminated body $x$", 2},
		"open comment":      {"SELECT 1; /* /* */", "unterminated comment", 1},
		"NUL":               {"SELECT 1;\n-- \x00\nSELECT 2;", "NUL byte", 2},
		"byte order mark":   {"\xEF\xBB\xBFSELECT 1;", "byte order mark", 1},
		"not UTF-8":         {"SELECT '\xff';", "not valid UTF-8", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := flyway.Load(folder("V1__x.sql", f.text))
			refused, ok := errors.AsType[*flyway.FileError](err)
			if !ok {
				t.Fatalf("load: %v, want a FileError", err)
			}
			if refused.File != "V1__x.sql" || refused.Line != f.line || !strings.Contains(refused.Reason, f.want) {
				t.Errorf("load: %v, want %q at line %d", err, f.want, f.line)
			}
		})
	}
}

// Words that mean nothing where they stand, and the kinds of files.
//
// Mutation: let the scanner take dollar quotes, comments or strings for code.
func TestLoadAcceptsTexts(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		text          string
		transactional bool
	}{
		"plpgsql":        {"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  RETURN 1; -- COMMIT;\nEND;\n$$;", true},
		"nested tags":    {"DO $outer$ BEGIN EXECUTE $in$ BEGIN; $in$; END $outer$;", true},
		"unicode tag":    {"DO $größe$ BEGIN END $größe$;", true},
		"atomic":         {"CREATE FUNCTION f() RETURNS int LANGUAGE sql\nBEGIN ATOMIC\n SELECT 1; SELECT CASE WHEN true THEN 2 ELSE 3 END;\nEND;\nSELECT 1;", true},
		"strings":        {"SELECT 'x; BEGIN;', E'\\'; COMMIT;', \"a; END;\" FROM (SELECT 1 AS \"a; END;\") q;", true},
		"comments":       {"-- BEGIN; COMMIT;\n/* ; ROLLBACK; /* END; */ \\i x */\nSELECT 1;", true},
		"parameters":     {"PREPARE p (int) AS SELECT $1 + $1;", true},
		"dollar in name": {"SELECT 1 AS a$b$c; SELECT 2 AS d$b$e;", true},
		"numbers":        {"SELECT 1e5, 0x1F, 1_000;", true},
		"rule":           {"CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO u VALUES (1); INSERT INTO u VALUES (2));", true},
		"column begin":   {"SELECT 1 AS \"begin\"; SELECT t.\"end\" FROM t;", true},
		"copy to server": {"COPY t FROM '/tmp/x';", true},
		"start reading":  {"PREPARE x AS SELECT 1;", true},
		"refresh":        {"REFRESH MATERIALIZED VIEW CONCURRENTLY v;", true},
		"index":          {"CREATE INDEX i ON t (a);", true},
		"concurrently":   {"-- why\nCREATE UNIQUE INDEX CONCURRENTLY i ON t (a);\n", false},
		"drop":           {"drop index concurrently i", false},
		"vacuum":         {"VACUUM (ANALYZE) t;", false},
		"alter system":   {"ALTER SYSTEM SET work_mem = '8MB';", false},
		"reindex":        {"REINDEX SCHEMA public;", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := flyway.Load(folder("V1__x.sql", f.text))
			if err != nil {
				t.Fatalf("load: %v", err)
			}
			if got := c.Migrations()[0].Transactional; got != f.transactional {
				t.Errorf("transactional = %t, want %t", got, f.transactional)
			}
		})
	}
}

// All faults of all files are told at once.
//
// Mutation: return the first fault.
func TestLoadTellsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := flyway.Load(folder("V1__a.sql", "BEGIN;", "V2__b.sql", "SELECT '${x}';", "notes.txt", ""))
	if err == nil {
		t.Fatal("load: no error")
	}
	for _, name := range []string{"V1__a.sql:1", "V2__b.sql:1", "notes.txt"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("load: %v, want %s in it", err, name)
		}
	}
}
