package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// patient leaves a run far more time than its test has: one that waits for what never
// comes is ended by the test.
func patient(o *reconcile.Options) { o.MaxDuration = 24 * time.Hour }

// bounded is the test's own time.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// lose ends the auditor's connections to a database, which lets no other in.
func lose(t *testing.T, conn *pgx.Conn, db pgtest.DB) {
	t.Helper()
	exec(t, conn, fmt.Sprintf("ALTER DATABASE %q CONNECTION LIMIT 0", db.Name)) // which holds for no superuser
	exec(t, conn, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 't_auditor' AND datname = current_database()")
}

// sealing asks for a baseline, which any whole run is good for.
func sealing(to *bytes.Buffer) func(*reconcile.Options) {
	return func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: to, By: "erin@ops", Baseline: true} }
}

// A database that is lost during the scan, and does not come back, makes the run
// INCOMPLETE at once, with the reason, and nothing is sealed: nobody waits for a
// connection that is none.
//
// Clauses: K-8.1, K-8.2, K-8.3
// Mutation: leave the error out of take.
func TestDatabaseIsLost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"paydb", "lockdb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := seeded(t, major)
				conn, db := w.pay, w.dbs.Pay
				if name == "lockdb" {
					conn, db = w.lock, w.dbs.Lock
				}
				var sealed bytes.Buffer
				ctx := bounded(t)
				report := w.runWith(ctx, t, patient, sealing(&sealed), during(func() { lose(t, conn, db) }))
				if ctx.Err() != nil {
					t.Fatalf("PostgreSQL %d: the run waited for %s: %+v", major, name, report.Missing)
				}
				if report.Outcome != reconcile.Incomplete || report.Complete || !missing(report, "read "+name+" again: failed to connect") {
					t.Errorf("PostgreSQL %d: %s, complete %t, %+v", major, report.Outcome, report.Complete, report.Missing)
				}
				if missing(report, "cut short") || !missing(report, "attribution was not read") {
					t.Errorf("PostgreSQL %d: %+v", major, report.Missing)
				}
				if report.Sealed || sealed.Len() > 0 || !noted(report, "nothing was sealed: no connection to "+name+" is left: failed to connect") {
					t.Errorf("PostgreSQL %d: sealed %t, %q", major, report.Sealed, report.Notes)
				}
			}
		})
	}
}

func noted(r reconcile.Report, text string) bool {
	return slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, text) })
}

// What was found before paydb was lost cannot be explained, and that is an error at
// once; lockdb has found this one by itself.
//
// Clauses: K-8.2
// Mutation: leave the error out of take.
func TestExplainWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		exec(t, w.lock, "ALTER SEQUENCE fencing_token_seq CACHE 10")
		report := w.run(t, rules("D02"))
		if len(report.Findings) == 0 {
			t.Fatalf("PostgreSQL %d: nothing was found: %+v", major, report.Missing)
		}
		o := w.options(t)
		patient(&o)
		during(func() { lose(t, w.pay, w.dbs.Pay) })(&o)
		ctx := bounded(t)
		_, err := reconcile.Explain(ctx, o, report.Findings[0].ID)
		var gone *reconcile.NoFindingError
		if err == nil || ctx.Err() != nil || errors.As(err, &gone) || !strings.Contains(err.Error(), "no connection to paydb is left: failed to connect") {
			t.Fatalf("PostgreSQL %d: %v", major, err)
		}
	}
}

// A connection that ends its snapshot and cannot begin the next, for it is lost or the
// server refuses, serves nobody: the run is INCOMPLETE.
//
// Clauses: K-8.3
// Mutation: leave the second dropClosed out of renew, or closeConn out of again.
func TestNoSecondSnapshot(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		for _, major := range pgtest.Majors() {
			w := seeded(t, major)
			ctx := bounded(t)
			report := w.runWith(ctx, t, patient, workers(1), rules("A01"), func(o *reconcile.Options) {
				begun := 0
				o.Pay.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
					return &brittle{Conn: conn, begun: &begun, refused: refused}, err
				}
			})
			if ctx.Err() != nil || report.Outcome != reconcile.Incomplete || report.Complete || !missing(report, "read paydb again: begin to read") {
				t.Fatalf("PostgreSQL %d, refused %t: %s, complete %t, %+v", major, refused, report.Outcome, report.Complete, report.Missing)
			}
		}
	}
}

// brittle breaks when the second transaction is to begin on it, or has that refused.
type brittle struct {
	net.Conn

	begun   *int
	refused bool
}

func (b *brittle) Write(said []byte) (int, error) {
	if bytes.Contains(said, []byte("begin isolation level repeatable read")) {
		if *b.begun++; *b.begun == 2 && !b.refused {
			_ = b.Close()
			return 0, net.ErrClosed
		} else if *b.begun == 2 {
			said = bytes.Replace(said, []byte("begin"), []byte("never"), 1) // which is no SQL
		}
	}
	return b.Conn.Write(said)
}

// A schema history that cannot be read at the end of a run, or could not at its
// beginning, is unchecked, and no migration: it was not seen to change.
//
// Clauses: K-8.4
// Mutation: leave unread, or the error of applied, out of compareHistory.
func TestUnreadableHistoryIsNoMigration(t *testing.T) {
	t.Parallel()
	const (
		revoke = "REVOKE ALL ON flyway_schema_history FROM dlock_auditor"
		grant  = "GRANT SELECT ON flyway_schema_history TO dlock_auditor"
	)
	for _, major := range pgtest.Majors() {
		w := seeded(t, major)
		for name, conn := range map[string]*pgx.Conn{"paydb": w.pay, "lockdb": w.lock} {
			for _, meanwhile := range []string{revoke, grant} {
				report := w.run(t, rules("D09"), during(func() { exec(t, conn, meanwhile) }))
				if report.Outcome != reconcile.Incomplete || !slices.Equal(classes(report.Findings), []string{"D08"}) || !missing(report, "history of "+name+" was not read") {
					t.Errorf("%s on PostgreSQL %d, %s: %s, %v, %+v", name, major, meanwhile, report.Outcome, classes(report.Findings), report.Missing)
				}
			}
		}
	}
}
