package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var c1Parameter = regexp.MustCompile(`:([a-z_]+)`)

// c1Statements reads (a) to (d) of C1 1.6, to the letter but for the parameters'
// spelling, by their letter.
func c1Statements(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/paydb/c1_1_6.sql")
	if err != nil {
		t.Fatal(err)
	}
	statements := map[string]string{}
	for s := range strings.SplitSeq(string(text), ";") {
		if _, after, ok := strings.Cut(s, "-- ("); ok {
			statements[after[:1]] = c1Parameter.ReplaceAllString(sqlComment.ReplaceAllString(s, ""), "@$1")
		}
	}
	if len(statements) != 4 {
		t.Fatalf("found %d statements in C1 1.6", len(statements))
	}
	return statements
}

// execer is a connection or a transaction on one.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// payRows runs sql and fails unless it changes want rows.
func payRows(t *testing.T, on execer, want int64, sql string, args ...any) {
	t.Helper()
	tag, err := on.Exec(t.Context(), qualify(sql, "public"), args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if got := tag.RowsAffected(); got != want {
		t.Fatalf("%s: %d rows, want %d", sql, got, want)
	}
}

// One payout goes the whole way through the guards as the two services' roles, with
// C1's statements as they stand; each of them then answers 0 rows to a stale token.
//
// Clauses: K-4.1, K-4.6, K-4.7, K-4.10, K-4.11, K-4.12, K-5.1, K-8.1
// Mutation: let a guard refuse more than it must, or grant less; < for <= in (b).
func TestPayPathUnderGuards(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		resource, rail := db.Conn(t, "t_resource"), db.Conn(t, "t_rail")
		c1 := c1Statements(t)
		args := pgx.NamedArgs{
			"token": 41, "account_id": id("a", 2), "currency": "EUR", "amount_minor": 120, "payout_id": id("b", 8),
			"entry_id": id("d", 1), "direction": "DEBIT",
		}

		payRows(t, resource, 1, newPayout+"('b8', 'a2', 120, 'EUR', 'k8')")
		payRows(t, resource, 1, "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 40, updated_at = now() WHERE payout_id = 'b8' AND state = 'PENDING'")
		payRows(t, resource, 1, "UPDATE payout SET claimed_by = 'v', claim_token = 41, updated_at = now() WHERE payout_id = 'b8' AND state = 'CLAIMED' AND claim_token < 41")
		payRows(t, resource, 1, "UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = attempt_count + 1 WHERE payout_id = 'b8' AND state = 'CLAIMED' AND claim_token = 41")

		payTx(t, rail, func(tx pgx.Tx) {
			payRows(t, tx, 1, c1["d"], args)
			payRows(t, tx, 1, newAttempt+"('e8', 'b8', 'k8', 41) ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING")
		})
		payRows(t, rail, 0, c1["d"], args) // the same token: strict
		payRows(t, rail, 0, newAttempt+"('e9', 'b8', 'k8', 42) ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING")
		payRows(t, rail, 1, "UPDATE rail_submission SET outcome = 'TIMEOUT', resolved_at = now() WHERE submission_id = 'e8' AND outcome IS NULL")
		payRows(t, resource, 1, "UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = 'b8' AND state = 'RAIL_SUBMITTED' AND claim_token = 41")
		payRows(t, rail, 1, "UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'r8', resolved_at = now() WHERE submission_id = 'e8' AND outcome = 'TIMEOUT'")
		payRows(t, resource, 1, "INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES ('b8', 'rail', 'PAID', '{\"reference\": \"r8\"}', 'w', 'asked')")
		payRows(t, resource, 1, "UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = 'b8' AND state = 'RAIL_AMBIGUOUS' AND claim_token = 41")

		payTx(t, resource, func(tx pgx.Tx) {
			payRows(t, tx, 1, c1["a"], args)
			payRows(t, tx, 1, c1["b"], args)
			payRows(t, tx, 1, c1["c"], args)
			payRows(t, tx, 1, "UPDATE account SET balance_minor = balance_minor + 120, updated_at = now() WHERE account_id = 'c1'")
			args["entry_id"], args["account_id"], args["direction"] = id("d", 2), id("c", 1), "CREDIT"
			payRows(t, tx, 1, c1["b"], args)
		})

		args["account_id"] = id("a", 2)
		payRows(t, resource, 0, c1["a"], args) // the same token: strict
		payRows(t, resource, 0, c1["c"], args) // posted already
		args["token"], args["entry_id"] = 40, id("d", 3)
		payRows(t, resource, 0, c1["b"], args) // the fence moved past it

		var got []string
		rows, err := super.Query(t.Context(), `
			SELECT format('%s %s %s', left(a.account_id::text, 1), a.balance_minor, a.fence) FROM account a WHERE account_id IN ($1, $2)
			UNION ALL SELECT format('%s %s %s', direction, amount_minor, fence) FROM ledger_entry
			UNION ALL SELECT format('%s %s', state, claim_token) FROM payout WHERE payout_id = $3
			UNION ALL SELECT format('claim %s %s', claimed_by, claim_token) FROM payout_claim WHERE payout_id = $3`, id("a", 2), id("c", 1), id("b", 8))
		if err == nil {
			got, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		want := []string{"CREDIT 120 41", "DEBIT 120 41", "POSTED 41", "a 380 41", "c 120 0", "claim v 41", "claim w 40"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after the payout (-want +got):\n%s", diff)
		}
	})
}

// denied are what each role must not do (K-12.1).
func denied() map[string][]string {
	return map[string][]string{
		"t_resource": {
			"SELECT FROM public.rail_high_water",
			"INSERT INTO rail_high_water VALUES ('a2', 99)",
			"UPDATE rail_high_water SET highest_token = 99",
			newAttempt + "('e9', 'b6', 'k6', 25)",
			"UPDATE rail_submission SET outcome = 'ACKED', resolved_at = now()",
			"INSERT INTO payout_claim VALUES ('b1', 99, 'w')",
			"UPDATE payout SET amount_minor = 1",
			"UPDATE account SET currency = 'CHF'",
			"INSERT INTO account (account_id, currency) VALUES ('a9', 'EUR')",
			"INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, created_at) VALUES ('b9', 'a2', 1, 'EUR', 'k9', '2020-01-01')",
			"INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence, created_at) VALUES ('d1', 'b4', 'a1', 'DEBIT', 100, 23, '2020-01-01')",
			"INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, timeline_id) VALUES ('b1', 'rail', 'PAID', '{\"a\": 1}', 'o', 'r', 9)",
			"DELETE FROM payout", "DELETE FROM ledger_entry", "TRUNCATE ledger_entry",
			"UPDATE fence_floor SET floor_token = 99", "UPDATE pay_gate SET closed_by = NULL",
			"INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason) VALUES ('a1', 1, now(), 'o', 'r')",
			"INSERT INTO clearing_account VALUES ('a2', 'EUR', 7)",
		},
		"t_rail": {
			"UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = 'b3'",
			newPayout + "('b9', 'a2', 1, 'EUR', 'k9')",
			"UPDATE account SET balance_minor = 0", "UPDATE account SET fence = 99",
			newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 23)", "SELECT FROM public.ledger_entry",
			"UPDATE rail_submission SET presented_token = 99", "DELETE FROM rail_submission",
			"DELETE FROM rail_high_water", "TRUNCATE rail_high_water",
			"UPDATE fence_floor SET floor_token = 99", "UPDATE pay_gate SET closed_by = NULL",
			"INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES ('b1', 'rail', 'PAID', '{\"a\": 1}', 'o', 'r')",
		},
		"t_operator": {
			"UPDATE account SET balance_minor = 0", newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 23)",
			"UPDATE rail_high_water SET highest_token = 99", "UPDATE fence_floor SET floor_token = 99",
			"DELETE FROM account_fence_raise", "UPDATE payout SET amount_minor = 1",
		},
		"t_auditor": {
			"UPDATE account SET fence = 99", "UPDATE payout SET state = 'FAILED'", newAttempt + "('e9', 'b6', 'k6', 25)",
			"UPDATE pay_gate SET closed_by = NULL", "DELETE FROM payout_claim",
		},
		"t_lockapp": {"SELECT FROM public.account", "SELECT FROM public.payout", "SELECT FROM public.rail_high_water", "UPDATE account SET fence = 99"},
	}
}

// Clauses: K-4.6, K-12.1, K-3.2
// Mutation: grant a whole table, or rail_high_water to payapp, in V18.
func TestPayRolesAreRefused(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		for user, statements := range denied() {
			conn := db.Conn(t, user)
			for _, sql := range statements {
				_, err := conn.Exec(t.Context(), qualify(sql, "public"))
				if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" || refused.ConstraintName != "" {
					t.Errorf("%s: %s: got %v, want permission denied", user, sql, err)
				}
				// Whoever has the right gets past it: it is the right that is missing.
				if _, err := super.Exec(t.Context(), "EXPLAIN "+qualify(sql, "public")); err != nil && !strings.HasPrefix(sql, "TRUNCATE") {
					t.Errorf("%s is not a statement at all: %v", sql, err)
				}
			}
		}
		// The auditor reads everything.
		auditor := db.Conn(t, "t_auditor")
		rows, err := super.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
		if err != nil {
			t.Fatal(err)
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(tables) != 14 {
			t.Fatalf("tables %q, %v", tables, err)
		}
		for _, table := range tables {
			if _, err := auditor.Exec(t.Context(), "SELECT FROM "+table); err != nil {
				t.Errorf("auditor: %v", err)
			}
		}
		// The operator raises a fence and says why, without becoming the owner.
		operator := db.Conn(t, "t_operator")
		payRows(t, operator, 1, "UPDATE account SET fence = 50, updated_at = now() WHERE account_id = 'a1'")
		payRows(t, operator, 1, "INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES ('a1', 10, 50, 'o', 'r')")
		payRows(t, operator, 1, "UPDATE payout SET state = 'FAILED', updated_at = now() WHERE payout_id = 'b7' AND state = 'PENDING'")
	})
}

func payTx(t *testing.T, conn *pgx.Conn, f func(tx pgx.Tx)) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { f(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// id is the long form of an id written short: id("a", 1) is 'a1'.
func id(kind string, n int) string {
	return fmt.Sprintf("%s0000000-0000-0000-0000-%012d", kind, n)
}
