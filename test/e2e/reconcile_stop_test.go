//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// Ctrl-C while a rule waits for a lock ends the run, which says INCOMPLETE, keeps what it
// has found until then, and leaves nothing running on the server. How long that takes
// `make bench` measures (reconcile-cancel).
//
// Clauses: K-8.1, K-8.5
// Mutation: forget in missClasses what was found before; then it keeps nothing.
func TestInterruptedReconcileKeepsWhatItFound(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, postgresVersion)
	super, watcher := dbs.Pay.Conn(t, "super"), dbs.Pay.Conn(t, "super")
	for _, sql := range []string{
		"SET session_replication_role = replica",
		"UPDATE account SET balance_minor = balance_minor + 70 WHERE account_id = '00000000-0000-4000-8000-000000000001'",
		"BEGIN; LOCK TABLE rail_submission", // until the connection is closed
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(binFolder(t), program), "reconcile", "--rule", "A01,C01", "--workers", "3", "-o", "json")
	cmd.Env = []string{"HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0", "DLOCKCTL_PAY_DSN=" + dbs.Pay.DSN("t_auditor"), "DLOCKCTL_LOCK_DSN=" + dbs.Lock.DSN("t_auditor")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A rule waits, and A01, which alone reads opening_balance, has been read: the session
	// that keeps it is past the savepoint of its rule, or waits in another one.
	until(t, watcher, `bool_or(wait_event_type = 'Lock')
		AND bool_or((wait_event_type = 'Lock' OR query LIKE 'release savepoint %')
			AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'opening_balance'::regclass AND granted))`)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if exit := exitCode(t, cmd.Wait()); exit != 130 {
		t.Errorf("exit %d, want 130", exit)
	}
	var report reconcile.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	kept := slices.ContainsFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == "A01" && f.Unconfirmed && f.AmountMinor == "70" })
	if report.Outcome != reconcile.Incomplete || report.Complete || len(report.Missing) == 0 || !kept {
		t.Errorf("%s, complete %t, missing %+v, findings %+v", report.Outcome, report.Complete, report.Missing, report.Findings)
	}
	var problem struct{ Code string }
	if err := json.Unmarshal(stderr.Bytes(), &problem); err != nil || problem.Code != "interrupted" {
		t.Errorf("%v: %s", err, &stderr)
	}
	until(t, watcher, "count(*) = 0")
}

// until waits until the auditor's sessions are as the condition says. It looks from a
// connection of its own: within a transaction pg_stat_activity stands still.
func until(t *testing.T, conn *pgx.Conn, condition string) {
	t.Helper()
	const sessions = " FROM pg_stat_activity WHERE usename = 't_auditor' AND datname = current_database()"
	for deadline := time.Now().Add(time.Minute); ; {
		var is *bool
		if err := conn.QueryRow(t.Context(), "SELECT "+condition+sessions).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is != nil && *is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never came about: %s", condition)
		}
		<-time.After(20 * time.Millisecond)
	}
}
