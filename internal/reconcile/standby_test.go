package reconcile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/migrations"
)

// A standby of paydb is read, workers and all, and says how far behind it may be, or
// that it has replayed nothing which would say so; what needs the last token issued is
// not checked on a standby of lockdb.
//
// Clauses: K-6.3, K-8.1, K-8.3
// Mutation: read the sequence on a standby too, leave the standby or its lag out of state.sql, or
// the timeline that is 0 out of comparable.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		began, server := time.Now(), pgtest.Crashable(t, major)
		lock, pay := server.EmptyDB(t), server.EmptyDB(t)
		migrate(t, lock, "lockdb")
		migrate(t, pay, "paydb", "seed/paydb")
		exec(t, pay.Conn(t, "super"), drift)
		said := "cannot be known"
		if replays := major == 16; replays {
			server.Crash(t)
			said = "paydb was read from a standby, at most "
		} else {
			server.Stop(t)
		}
		if err := os.WriteFile(filepath.Join(server.Dir, "data", "standby.signal"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		server.Start(t)
		defer exec(t, pay.Conn(t, "super"), "SELECT pg_promote()") // so that its databases can be dropped

		var sealed bytes.Buffer
		report, err := reconcile.Run(t.Context(), reconcile.Options{
			Pay: pay.Config(t, "t_auditor"), Lock: lock.Config(t, "t_auditor"), Workers: 3,
			Seal: &reconcile.Sealing{To: &sealed, By: "erin@ops", Baseline: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !report.Pay.Standby || !report.Lock.Standby || report.Pay.LSN == "" || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], said) {
			t.Errorf("PostgreSQL %d: %+v, %q", major, report.Pay, report.Notes)
		}
		if lag := time.Duration(report.Pay.LagMS) * time.Millisecond; (lag > 0) != (said != "cannot be known") || lag > time.Since(began)+time.Second {
			t.Errorf("PostgreSQL %d: %s behind, and all that was replayed is %s old", major, lag, time.Since(began))
		}
		if report.Outcome != reconcile.Breaks || report.Complete || !missing(report, "the last token issued is known on the primary only") {
			t.Errorf("PostgreSQL %d: %s, complete %t, %v, %+v", major, report.Outcome, report.Complete, classes(report.Findings), report.Missing)
		}
		notComparedOnStandby(t, sealed.String(), reconcile.Options{Pay: pay.Config(t, "t_auditor"), Lock: lock.Config(t, "t_auditor")})
		if report.LastTokenStr != "" {
			t.Errorf("PostgreSQL %d: the last token issued was read: %s", major, report.LastTokenStr)
		}
		for _, c := range report.Coverage {
			if (c.Class == "B07" || c.Class == "B18") && c.Skipped == "" {
				t.Errorf("PostgreSQL %d: %s is said to be checked", major, c.Class)
			}
		}
	}
}

// notComparedOnStandby reads it again, with a seal of its own: which of its primary's
// transactions were in progress it does not say, nor whether the primary has changed.
func notComparedOnStandby(t *testing.T, seal string, o reconcile.Options) {
	t.Helper()
	var err error
	if o.Previous, err = reconcile.ReadPrevious(strings.NewReader(seal), false); err != nil {
		t.Fatal(err)
	}
	report, err := reconcile.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Coverage, func(c reconcile.Coverage) bool { return c.Class == "D10" })
	if report.Coverage[i].Skipped == "" {
		t.Error("the transactions of a standby's seal are compared")
	}
}

func migrate(t *testing.T, db pgtest.DB, dirs ...string) {
	t.Helper()
	var locations []flyway.Location
	for _, dir := range dirs {
		locations = append(locations, flyway.Location{FS: migrations.FS, Dir: dir})
	}
	catalogue, err := flyway.Load(locations...)
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrator.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
