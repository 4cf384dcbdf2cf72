package migrations_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

const (
	claimB1 = "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 30 WHERE payout_id = 'b1'"
	claimB5 = "UPDATE payout SET claimed_by = 'w', claim_token = 30 WHERE payout_id = 'b5'"
	noteNow = "UPDATE pay_gate SET system_identifier = instance_system_identifier(), timeline_id = instance_timeline()"
)

// payRestored is a populated paydb whose gate was opened on another instance, as a
// restore from its backup leaves it.
func payRestored(t *testing.T, major int) *pgx.Conn {
	t.Helper()
	_, conn := paySchema(t, major, "public")
	payBase(t, conn)
	payExec(t, conn, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard;
		UPDATE pay_gate SET system_identifier = 42;
		ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
	return conn
}

// A restored paydb claims and attempts nothing but what was resolved here; old and
// new payouts alike; and opens when none is left.
//
// Clauses: K-7.9
// Mutation: compare the timeline only, count any resolution, or except new payouts.
func TestPayGateAfterRestore(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		conn := payRestored(t, major)
		for _, step := range []struct{ what, sql, want string }{
			{"claim", claimB1, "55000 pay_gate"},
			{"attempt", newAttempt + "('e9', 'b6', 'k6', 25)", "55000 pay_gate"},
			{"fenced attempt", "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES ('e9', 'b6', 'k6', 5, 'FENCED', now())", "passed"},
			{"new payout", newPayout + "('b9', 'a2', 1, 'EUR', 'k9')", "passed"},
			{"claim of the new one", "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 30 WHERE payout_id = 'b9'", "55000 pay_gate"},
			{"opened too early", noteNow, "55000 pay_gate_guard"},
			{"resolved: not at the rail", resolveAs("NOT_FOUND", "b1"), "passed"},
			{"claim of the resolved", claimB1, "passed"},
			{"resolved: never to be known", resolveAs("UNDETERMINED", "b7"), "passed"},
			{"claim of the undetermined", "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 30 WHERE payout_id = 'b7'", "55000 pay_gate"},
			// b5 is RAIL_AMBIGUOUS, and UNDETERMINED on this very instance (base.sql).
			{"takeover to abandon", claimB5, "passed"},
			{"abandon", "UPDATE payout SET state = 'ABANDONED' WHERE payout_id = 'b5'", "passed"},
			{"post what was acknowledged", postB4, "passed"},
			{"give up", "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b7'", "passed"},
			{"some resolved", resolveAs("NOT_FOUND", "b2"), "passed"},
			{"still one left", noteNow, "55000 pay_gate_guard"},
			{"all resolved", "INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) SELECT payout_id, 'rail', 'PAID', '{\"a\": 1}', 'o', 'r' FROM payout", "passed"},
			{"attempt of the resolved", newAttempt + "('e8', 'b6', 'k6', 25)", "passed"},
			{"opened", noteNow, "passed"},
			{"new payout again", newPayout + "('b8', 'a2', 1, 'EUR', 'k8')", "passed"},
			{"claimed as ever", "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 31 WHERE payout_id = 'b8'", "passed"},
		} {
			if got := payAttempt(t, conn, step.sql); got != step.want {
				t.Errorf("%s: got %q, want %q", step.what, got, step.want)
			}
		}
	})
}

func resolveAs(verdict, payout string) string {
	return "INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES ('" + payout + "', 'rail', '" + verdict + "', '{\"a\": 1}', 'o', 'r')"
}

// payAttempt is attempt in a transaction of its own, whose work is kept.
func payAttempt(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var got string
	payTx(t, conn, func(tx pgx.Tx) { got = attempt(t, tx, qualify(sql, "public"), true) })
	return got
}

// A resolution that came with the backup was made in another life, and one from
// before the gate was closed by hand settles nothing since.
//
// Clauses: K-7.9
// Mutation: take an identity or recorded_at out of payout_resolved.
func TestPayGateCountsNoOldResolution(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		restored := payRestored(t, major)
		for column, value := range map[string]string{"system_identifier": "42", "timeline_id": "7"} {
			payRows(t, restored, 1, "INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, "+column+
				") VALUES ('b1', 'rail', 'PAID', '{\"a\": 1}', 'o', 'r', "+value+")")
			if got := payAttempt(t, restored, claimB1); got != "55000 pay_gate" {
				t.Errorf("with a resolution of another %s: %s", column, got)
			}
		}

		_, home := paySchema(t, major, "public")
		payBase(t, home)
		payRows(t, home, 1, resolveAs("NOT_FOUND", "b1"))
		payRows(t, home, 1, "UPDATE pay_gate SET closed_by = 'o', closed_at = now(), closed_reason = 'a plain copy'")
		if got := payAttempt(t, home, claimB1); got != "55000 pay_gate" {
			t.Errorf("with a resolution from before the gate was closed: %s", got)
		}
		payRows(t, home, 1, resolveAs("NOT_FOUND", "b1"))
		if got := payAttempt(t, home, claimB1); got != "passed" {
			t.Errorf("resolved since: %s", got)
		}
	})
}

// A full dump restored on another instance keeps every row, passes every guard on
// the way in, and claims nothing there; a data-only one loads in replica mode, in
// any order of tables, and has its claim history again. (pg_dump is at hand for 15.)
//
// Clauses: K-1.1, K-7.9
// Mutation: take the replica exception out of ledger_entry_guard, posting_guard or payout_new_guard,
// or the search_path off a function.
func TestPayDumpRestoredElsewhere(t *testing.T) {
	t.Parallel()
	servers := pgtest.Servers(t, 15)
	source, conn := paySchema(t, 15, "public")
	payBase(t, conn)
	payExec(t, conn, qualify(postB4, "public"))

	full := servers.Lock.EmptyDB(t)
	payLoad(t, full, payDump(t, source), "")
	restored := full.Conn(t, "super")
	if diff := cmp.Diff(payCounts(t, conn), payCounts(t, restored)); diff != "" {
		t.Errorf("rows after a full restore (-source +restored):\n%s", diff)
	}
	if got := payAttempt(t, restored, claimB1); got != "55000 pay_gate" {
		t.Errorf("claim on another instance: %s", got)
	}
	if got := payAttempt(t, conn, claimB1); got != "passed" {
		t.Errorf("claim at home: %s", got)
	}

	data := servers.Lock.EmptyDB(t)
	migrated := data.Conn(t, "super")
	applyAll(t, migrated, "paydb")
	payLoad(t, data, payDump(t, source, "--data-only", "-T", "pay_gate", "-T", "fence_floor", "-T", "payout_claim"), "-c session_replication_role=replica")
	want := payCounts(t, conn)
	// A released claim is history that the payout's row has forgotten.
	want["payout_claim"]--
	if diff := cmp.Diff(want, payCounts(t, migrated)); diff != "" {
		t.Errorf("rows after a data-only restore (-source +restored):\n%s", diff)
	}
}

func payDump(t *testing.T, db pgtest.DB, args ...string) []byte {
	t.Helper()
	return payTool(t, "pg_dump", nil, "", append(args, "--no-sync", "-d", db.DSN("super"))...)
}

func payLoad(t *testing.T, db pgtest.DB, dump []byte, options string) {
	t.Helper()
	payTool(t, "psql", dump, options, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", db.DSN("super"))
}

func payTool(t *testing.T, name string, stdin []byte, options string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := filepath.Join(os.Getenv("DLOCKCTL_TEST_PG15"), name)
	if _, err := os.Stat(program); err != nil { // the npm package has no client programs
		if program, err = exec.LookPath(name); err != nil {
			t.Fatalf("%v; install the client programs of PostgreSQL 15 or newer, Debian's package postgresql-client", err)
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "PGOPTIONS="+options)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, errs.String())
	}
	return out.Bytes()
}

func payCounts(t *testing.T, conn *pgx.Conn) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, table := range []string{"account", "payout", "ledger_entry", "rail_submission", "rail_high_water", "clearing_account", "opening_balance", "payout_claim", "payout_resolution", "account_fence_raise", "fence_floor", "pay_gate"} {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM public."+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}
