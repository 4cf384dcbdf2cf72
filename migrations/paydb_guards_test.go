package migrations_test

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Each attack is refused, to a superuser, with an empty search_path and, where a
// row can tell by itself, in replica mode; and it passes when its guard is out,
// which shows that this guard and no other refused it.
//
// Clauses: K-1.1, K-1.6, K-3.2, K-4.7, K-4.8, K-4.10, K-4.11, K-4.12, K-5.1, K-5.2, K-5.3, K-7.8, K-7.9
// Mutation: take any trigger, CHECK or index named here out of migrations/paydb.
func TestPayGuards(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		for _, schema := range []string{"public", oddSchema} {
			t.Run(schema, func(t *testing.T) {
				t.Parallel()
				_, conn := paySchema(t, major, schema)
				payBase(t, conn)
				payExec(t, conn, "SET search_path = ''")
				for _, a := range attacks() {
					a.run(t, conn, schema)
				}
			})
		}
	})
}

// payBase migrates and populates (testdata/paydb/base.sql).
func payBase(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	applyAll(t, conn, "paydb")
	runAssertions(t, conn, "testdata/paydb/helper.sql")
	runAssertions(t, conn, "testdata/paydb/base.sql")
}

func (a attack) run(t *testing.T, conn *pgx.Conn, schema string) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if a.setup != "" {
		if got := attempt(t, tx, qualify(a.setup, schema), true); got != "passed" {
			t.Fatalf("%s: setup: %s", a.name, got)
		}
		// No guard may be taken out while a look at the end is due.
		payExecTx(t, tx, "SET CONSTRAINTS ALL IMMEDIATE")
		payExecTx(t, tx, "SET CONSTRAINTS ALL DEFERRED")
	}
	if a.atEnd {
		payExecTx(t, tx, "SET CONSTRAINTS ALL IMMEDIATE")
	}
	sql := qualify(a.sql, schema)
	if got := attempt(t, tx, sql, false); got != a.refusal {
		t.Errorf("%s: got %q, want %q", a.name, got, a.refusal)
	}
	want := cmp.Or(a.replica, "passed")
	if want == same {
		want = a.refusal
	}
	payExecTx(t, tx, "SET LOCAL session_replication_role = replica")
	if got := attempt(t, tx, sql, false); got != want {
		t.Errorf("%s: in replica mode got %q, want %q", a.name, got, want)
	}
	payExecTx(t, tx, "SET LOCAL session_replication_role = origin")
	takeOut(t, tx, a.guard, schema)
	if got := attempt(t, tx, sql, false); got != "passed" {
		t.Errorf("%s: negative control, without %s: got %q", a.name, a.guard, got)
	}
}

// attempt runs sql in a savepoint, keeps its work only if told, and tells whether
// it passed, changed no row, or by what it was refused.
func attempt(t *testing.T, tx pgx.Tx, sql string, keep bool) string {
	t.Helper()
	undo := errors.New("undo")
	outcome := "passed"
	err := pgx.BeginFunc(t.Context(), tx, func(inner pgx.Tx) error {
		tag, err := inner.Exec(t.Context(), sql)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 && !strings.HasPrefix(sql, "TRUNCATE") {
			outcome = "0 rows"
		}
		if keep {
			return nil
		}
		return undo
	})
	if err == nil || errors.Is(err, undo) {
		return outcome
	}
	return refusal(err)
}

// refusal is the SQLSTATE and the constraint of a database error, or the error.
func refusal(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.TrimSpace(refused.Code + " " + refused.ConstraintName)
	}
	return fmt.Sprint(err)
}

func takeOut(t *testing.T, tx pgx.Tx, guards, schema string) {
	t.Helper()
	for guard := range strings.SplitSeq(guards, ", ") {
		name, table, onTable := strings.Cut(guard, " on ")
		qualified := pgx.Identifier{schema, table}.Sanitize()
		switch {
		case !onTable:
			payExecTx(t, tx, "DROP INDEX "+pgx.Identifier{schema, name}.Sanitize())
		case strings.HasSuffix(name, "_ck"):
			payExecTx(t, tx, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", qualified, name))
		default:
			payExecTx(t, tx, fmt.Sprintf("ALTER TABLE %s DISABLE TRIGGER %s", qualified, name))
		}
	}
}

func payExecTx(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

var (
	shortID   = regexp.MustCompile(`'([a-e])([1-9])'`)
	tableName = regexp.MustCompile(`(INSERT INTO|UPDATE|DELETE FROM|TRUNCATE) ([a-z_]+)`)
)

// qualify writes ids in full and puts the schema before the table.
func qualify(sql, schema string) string {
	sql = shortID.ReplaceAllString(sql, "'${1}0000000-0000-0000-0000-00000000000${2}'")
	return tableName.ReplaceAllString(sql, "$1 "+strings.ReplaceAll(pgx.Identifier{schema}.Sanitize(), "$", "$$")+".$2")
}
