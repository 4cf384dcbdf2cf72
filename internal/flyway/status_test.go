package flyway_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// states prints a status as lines of what Flyway's info shows.
func states(s flyway.Status) []string {
	lines := []string{}
	for _, i := range s.Migrations {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%s", i.Category, i.Version, i.Description, i.Type, i.State))
	}
	return lines
}

// Rows as Flyway itself writes them: a schema marker at rank 0, a baseline, a
// deletion, a failure, a Java migration, a run out of order.
//
// Clauses: K-9.1
// Mutation: take max(version) for the current one, or a schema marker for a repeatable.
func TestStatusReadsFlywaysRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, "R__zz.sql", "SELECT 1;"))
		execute(t, db, `TRUNCATE flyway_schema_history`)
		execute(t, db, `INSERT INTO flyway_schema_history VALUES
		(0, NULL, '<< Flyway Schema Creation >>', 'SCHEMA', '"public"', NULL, 'f', now(), 0, true),
		(1, '2', '<< Flyway Baseline >>', 'BASELINE', '<< Flyway Baseline >>', NULL, 'f', now(), 0, true),
		(2, '3', 'three', 'SQL', 'V3__three.sql', `+sum(t, "SELECT 3;")+`, 'f', now(), 1, true),
		(3, '5', 'five', 'SQL', 'V5__five.sql', `+sum(t, "SELECT 5;")+`, 'f', now(), 1, true),
		(4, '4.0', 'four', 'SQL', 'V4_0__four.sql', `+sum(t, "SELECT 4;")+`, 'f', now(), 1, true),
		(5, '6', 'six', 'SQL', 'V6__six.sql', 6, 'f', now(), 1, true),
		(6, '6', 'six', 'DELETE', 'V6__six.sql', 6, 'f', now(), 0, true),
		(7, NULL, 'r', 'SQL', 'R__r.sql', `+sum(t, "SELECT 1;")+`, 'f', now(), 1, true),
		(8, NULL, 'r', 'SQL', 'R__r.sql', `+sum(t, "SELECT 2;")+`, 'f', now(), 1, true),
		(9, NULL, 'gone', 'SQL', 'R__gone.sql', 9, 'f', now(), 1, true),
		(10, NULL, 'gone', 'DELETE', 'R__gone.sql', 9, 'f', now(), 0, true),
		(11, '7', 'seven', 'JDBC', 'db.V7__seven', NULL, 'f', now(), 1, true),
		(12, '7.1', 'index', 'SQL', 'V7_1__index.sql', 1, 'f', now(), 1, false),
		(13, '99', 'newer', 'SQL', 'V99__newer.sql', 1, 'f', now(), 1, true)`)
		status, err := open(t, db, files(t,
			"V1__one.sql", "SELECT 1;", "V2__two.sql", "SELECT 2;", "V3__three.sql", "SELECT 3;", "V04__four.sql", "SELECT 4;",
			"V5__five.sql", "SELECT 5;", "V6__six.sql", "SELECT 6;", "V8__eight.sql", "SELECT 8;", "V100__last.sql", "SELECT 8;",
			"R__r.sql", "SELECT 1;", "R__new.sql", "SELECT 1;",
		)).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"Versioned|1|one|SQL|Below Baseline",
			"Versioned|2|two|SQL|Ignored (Baseline)",
			"||<< Flyway Schema Creation >>|SCHEMA|Success",
			"|2|<< Flyway Baseline >>|BASELINE|Baseline",
			"Versioned|3|three|SQL|Success",
			"Versioned|5|five|SQL|Success",
			"Versioned|4.0|four|SQL|Out of Order",
			"Versioned|6|six|SQL|Deleted",
			"Repeatable||r|SQL|Superseded",
			"Repeatable||r|SQL|Outdated",
			"Repeatable||gone|SQL|Deleted",
			"||gone|DELETE|Success",
			"Versioned|7|seven|JDBC|Missing",
			"Versioned|7.1|index|SQL|Failed (Missing)",
			"Versioned|99|newer|SQL|Missing",
			"Versioned|6|six|SQL|Ignored",
			"Versioned|8|eight|SQL|Ignored",
			"Versioned|100|last|SQL|Pending",
			"Repeatable||new|SQL|Pending",
			"Repeatable||r|SQL|Pending",
		}
		if diff := cmp.Diff(want, states(status)); diff != "" {
			t.Errorf("info (-want +got):\n%s", diff)
		}
		if status.CurrentVersion != "99" || status.Pending != 3 || !status.Dirty {
			t.Errorf("current %s, pending %d, dirty %t; want 99, 3, true", status.CurrentVersion, status.Pending, status.Dirty)
		}
	})
}

// A role with SELECT on the history and nothing else can read it; before the
// history exists it needs not even that.
//
// Clauses: K-12.1
// Mutation: let Status take the lock, or set the owner's role first.
func TestStatusAsReadOnlyRole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t, "V1__one.sql", "CREATE TABLE one (id int); GRANT SELECT ON flyway_schema_history TO dlock_auditor;",
			"R__two.sql", "SELECT 1;")
		auditor, err := pgx.ParseConfig(db.DSN("t_auditor"))
		if err != nil {
			t.Fatal(err)
		}
		asAuditor := func(config *pgx.ConnConfig, _ *flyway.Options) {
			config.User, config.Password = auditor.User, auditor.Password
		}

		status, err := open(t, db, c, asAuditor).Status(t.Context())
		if err != nil {
			t.Fatalf("status before the history exists: %v", err)
		}
		if status.HistoryExists || status.Pending != 2 || status.CurrentVersion != "" {
			t.Errorf("status of an empty database = %+v, want two pending and no history", status)
		}
		up(t, db, c)
		status, err = open(t, db, c, asAuditor).Status(t.Context())
		if err != nil {
			t.Fatalf("status: %v", err)
		}
		if !status.HistoryExists || status.Pending != 0 || status.CurrentVersion != "1" {
			t.Errorf("status = %+v, want version 1 and nothing pending", status)
		}
		if report, err := open(t, db, c, asAuditor).Validate(t.Context()); err != nil || !report.Valid {
			t.Errorf("validate = %+v, %v; want valid", report, err)
		}
		if _, err := open(t, db, c, asAuditor).Up(t.Context()); err == nil {
			t.Error("up as the auditor: no error")
		}
	})
}

// A login that has the owner's rights only by SET ROLE can read too.
//
// Mutation: take the second look out of look.
func TestStatusAsNoninheritingMember(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		c := files(t, "V1__one.sql", "CREATE TABLE one (id int);")
		up(t, db, c)
		status, err := open(t, db, c, func(config *pgx.ConnConfig, _ *flyway.Options) {
			config.User = "t_operator"
		}).Status(t.Context())
		if err != nil || status.CurrentVersion != "1" {
			t.Errorf("status = %+v, %v; want version 1", status, err)
		}
	})
}

// Validate finds what Flyway's validate finds, pending files among it.
//
// Clauses: K-9.3
// Mutation: leave pending files out of findings.
func TestValidate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, "V1__one.sql", "SELECT 1;", "R__r.sql", "SELECT 1;"))
		report, err := open(t, db, files(t, "V1__one.sql", "SELECT 2;", "V2__two.sql", "SELECT 2;", "R__r.sql", "SELECT 2;")).Validate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range report.Findings {
			got = append(got, string(f.Kind)+" "+f.Script)
		}
		want := []string{"edited V1__one.sql", "outdated R__r.sql", "pending V2__two.sql"}
		if diff := cmp.Diff(want, got); diff != "" || report.Valid {
			t.Errorf("valid = %t, findings (-want +got):\n%s", report.Valid, diff)
		}
	})
}

// What a store asks: the rows in force and the version they amount to.
//
// Clauses: K-9.5
// Mutation: do not let a DELETE row take back its version in fold.
func TestApplied(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		conn := db.Conn(t, "super")
		rows, err := flyway.Applied(t.Context(), conn, "")
		if err != nil || len(rows) != 0 {
			t.Fatalf("applied in an empty database = %v, %v; want none", rows, err)
		}
		if version, dirty := flyway.CurrentVersion(rows); version != 0 || dirty {
			t.Errorf("current version of nothing = %d, %t", version, dirty)
		}
		up(t, db, files(t, "V1__one.sql", "SELECT 1;", "V12__two.sql", "SELECT 2;", "R__r.sql", "SELECT 1;"))
		up(t, db, files(t, "V1__one.sql", "SELECT 1;", "V12__two.sql", "SELECT 2;", "R__r.sql", "SELECT 2;"))
		execute(t, db, `INSERT INTO flyway_schema_history VALUES (5, '13', 'x', 'SQL', 'V13__x.sql', 1, 'f', now(), 0, true),
		(6, '13.0', 'x', 'DELETE', 'V13__x.sql', 1, 'f', now(), 0, true)`)
		rows, err = flyway.Applied(t.Context(), conn, "public")
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, r := range rows {
			got = append(got, line(r))
		}
		want := []string{
			"1|1|one|SQL|V1__one.sql|" + sum(t, "SELECT 1;") + "|dlock_owner|true",
			"2|12|two|SQL|V12__two.sql|" + sum(t, "SELECT 2;") + "|dlock_owner|true",
			"4|-|r|SQL|R__r.sql|" + sum(t, "SELECT 2;") + "|dlock_owner|true",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("applied (-want +got):\n%s", diff)
		}
		if version, dirty := flyway.CurrentVersion(rows); version != 12 || dirty {
			t.Errorf("current version = %d, dirty %t; want 12, false", version, dirty)
		}
		execute(t, db, `UPDATE flyway_schema_history SET success = false WHERE version = '12'`)
		if rows, err = flyway.Applied(t.Context(), conn, ""); err != nil {
			t.Fatal(err)
		}
		if version, dirty := flyway.CurrentVersion(rows); version != 12 || !dirty {
			t.Errorf("current version = %d, dirty %t; want 12, true", version, dirty)
		}
	})
}
