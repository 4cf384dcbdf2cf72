package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	debitB4  = newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 23)"
	creditB4 = newLeg + "('d2', 'b4', 'c1', 'CREDIT', 100, 23)"
	postedB4 = "UPDATE payout SET state = 'POSTED' WHERE payout_id = 'b4'"
)

// No half of a posting commits, in any order of statements, by any detour; the whole
// one does. As payment-resource, which is who posts.
//
// Clauses: K-4.7, K-4.10
// Mutation: take ledger_posting_guard or payout_posting_guard out, a direction, the
// state or a fence out of posting_guard, or make either guard immediate.
func TestPayPostingCommitsWhole(t *testing.T) {
	t.Parallel()
	const refused = "23514 posting_guard"
	atOnce := "SET CONSTRAINTS ALL IMMEDIATE"
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		resource := db.Conn(t, "t_resource")
		for _, c := range []struct {
			what       string
			statements []string
			want       string
		}{
			{"a debit", []string{debitB4}, refused},
			{"a credit", []string{creditB4}, refused},
			{"both legs, not posted", []string{debitB4, creditB4}, refused},
			{"posted", []string{postedB4}, refused},
			{"posted with a debit", []string{debitB4, postedB4}, refused},
			{"posted with a credit", []string{postedB4, creditB4}, refused},
			{"legs of a payout that failed", []string{debitB4, creditB4, "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b4'"}, refused},
			{"legs under two tokens", []string{debitB4, "UPDATE payout SET claim_token = 31 WHERE payout_id = 'b4'", newLeg + "('d2', 'b4', 'c1', 'CREDIT', 100, 31)", postedB4}, refused},
			{"looked at early, then undone", []string{debitB4, creditB4, "SAVEPOINT s", postedB4, atOnce, "ROLLBACK TO SAVEPOINT s"}, refused},
			{"a leg undone", []string{debitB4, postedB4, "SAVEPOINT s", creditB4, atOnce, "ROLLBACK TO SAVEPOINT s"}, refused},
			{"the whole, C1's order", []string{debitB4, postedB4, creditB4}, "passed"},
		} {
			if got := payCommit(t, resource, c.statements); got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
		if got := payString(t, super, "SELECT format('%s legs, b4 %s', (SELECT count(*) FROM ledger_entry), (SELECT state FROM payout WHERE payout_id = $1))", id("b", 4)); got != "2 legs, b4 POSTED" {
			t.Errorf("committed: %s", got)
		}
	})
}

// payCommit runs the statements in one transaction and tells how it ended.
func payCommit(t *testing.T, conn *pgx.Conn, statements []string) string {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(t.Context(), qualify(sql, "public")); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return "passed"
	}
	return refusal(err)
}

// What each role needs for the money's verbs it has, without becoming another: the
// operator raises a fence, the rail its mark, and the auditor reads what reconcile
// reads, which instance it is included.
//
// Clauses: K-3.2, K-4.6, K-7.9, K-12.1
// Mutation: take a grant out of V18.
func TestPayRolesMay(t *testing.T) {
	t.Parallel()
	const recorded = "INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES ('a1', 10, 50, 'o', 'r') ON CONFLICT (account_id, raised_to) DO NOTHING"
	const identity = "SELECT c.system_identifier, k.timeline_id, pg_is_in_recovery(), pg_current_wal_insert_lsn() FROM pg_control_system() c, pg_control_checkpoint() k"
	raise := []string{"SELECT FROM account WHERE account_id = 'a1' FOR UPDATE", "UPDATE account SET fence = greatest(fence, 50), updated_at = now() WHERE account_id = 'a1'", recorded}
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payExec(t, super, "SET ROLE dlock_owner; CREATE TABLE flyway_schema_history (installed_rank INT PRIMARY KEY, version TEXT, checksum INT); RESET ROLE")
		payBase(t, super)
		for login, transactions := range map[string][][]string{
			"t_operator": {
				raise, raise, // a rerun finishes what is pending
				{resolveAs("NOT_FOUND", "b5"), "UPDATE payout SET state = 'FAILED', updated_at = now() WHERE payout_id = 'b5'"},
				{"SELECT * FROM flyway_schema_history", identity},
			},
			"t_resource": {
				{"UPDATE account SET fence = greatest(fence, 50), updated_at = now() WHERE account_id = 'a1'", recorded},
				{"UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b6'"},
				{"SELECT * FROM flyway_schema_history", identity},
			},
			"t_rail": {
				{"INSERT INTO rail_high_water AS h (account_id, highest_token, updated_at) VALUES ('a2', 60, now()) ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token, updated_at = now() WHERE h.highest_token < EXCLUDED.highest_token"},
				{"SELECT * FROM flyway_schema_history", identity},
			},
			"t_auditor": {
				{"SELECT pg_export_snapshot()"},
				{"SELECT * FROM flyway_schema_history", identity},
				{"SET LOCAL row_security = off", "SELECT payout_verdict('b5')"},
				{"SELECT pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), pg_last_xact_replay_timestamp()"},
			},
		} {
			conn := db.Conn(t, login)
			for _, statements := range transactions {
				if got := payCommit(t, conn, statements); got != "passed" {
					t.Errorf("%s: %q: %s", login, statements, got)
				}
			}
		}
		if got := payString(t, super, "SELECT fence || ' ' || (SELECT count(*) FROM account_fence_raise r WHERE r.account_id = a.account_id AND raised_to = 50) FROM account a WHERE account_id = $1", id("a", 1)); got != "50 1" {
			t.Errorf("fence and raises of a1: %s", got)
		}
	})
}
