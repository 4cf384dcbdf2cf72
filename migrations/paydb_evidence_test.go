package migrations_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// outcomes is the whole of V20: from, to: attempt / verdict, where a dot is any
// verdict. What is not here is refused. (PENDING and CLAIMED have no attempt, unless
// somebody planted one.)
const outcomes = `
PENDING FAILED: none/none none/REJECTED none/NOT_FOUND none/UNDETERMINED REJECTED/none REJECTED/REJECTED REJECTED/NOT_FOUND REJECTED/UNDETERMINED
CLAIMED FAILED: none/none none/REJECTED none/NOT_FOUND none/UNDETERMINED REJECTED/none REJECTED/REJECTED REJECTED/NOT_FOUND REJECTED/UNDETERMINED
RAIL_SUBMITTED FAILED: none/none none/REJECTED none/NOT_FOUND none/UNDETERMINED REJECTED/none REJECTED/REJECTED REJECTED/NOT_FOUND REJECTED/UNDETERMINED
RAIL_SUBMITTED RAIL_ACKED: ACKED/. none/none none/PAID none/NOT_FOUND none/UNDETERMINED NULL/PAID TIMEOUT/PAID REJECTED/PAID
RAIL_SUBMITTED RAIL_AMBIGUOUS: NULL/. TIMEOUT/.
RAIL_AMBIGUOUS FAILED: none/REJECTED none/NOT_FOUND NULL/REJECTED TIMEOUT/REJECTED TIMEOUT/NOT_FOUND REJECTED/none REJECTED/REJECTED REJECTED/NOT_FOUND REJECTED/UNDETERMINED
RAIL_AMBIGUOUS RAIL_ACKED: ACKED/. none/PAID NULL/PAID TIMEOUT/PAID REJECTED/PAID
RAIL_AMBIGUOUS ABANDONED: none/UNDETERMINED TIMEOUT/UNDETERMINED
RAIL_ACKED FAILED: none/. NULL/. TIMEOUT/. ACKED/. REJECTED/.
`

// A payout leaves the rail as its attempt or recorded evidence says, from every state,
// under every attempt and every verdict.
//
// Clauses: K-4.5, K-4.11, K-5.3, K-5.5
// Mutation: change any branch of payout_rail_guard, or the order of payout_verdict.
func TestPayOutcomes(t *testing.T) {
	t.Parallel()
	verdicts := []string{"none", "PAID", "REJECTED", "NOT_FOUND", "UNDETERMINED"}
	want, arrows := map[string]bool{}, []string{}
	for line := range strings.Lines(strings.TrimSpace(outcomes)) {
		arrow, evidence, _ := strings.Cut(strings.TrimSpace(line), ": ")
		arrows = append(arrows, arrow)
		for _, e := range strings.Fields(evidence) {
			for _, v := range verdicts {
				if attempt, verdict, _ := strings.Cut(e, "/"); verdict == "." || verdict == v {
					want[arrow+" "+attempt+"/"+v] = true
				}
			}
		}
	}
	onMajors(t, func(t *testing.T, major int) {
		_, conn := paySchema(t, major, "public")
		payBase(t, conn)
		got := map[string]bool{}
		for _, arrow := range arrows {
			from, to, _ := strings.Cut(arrow, " ")
			for _, attempt := range []string{"none", "NULL", "TIMEOUT", "ACKED", "REJECTED"} {
				for _, verdict := range verdicts {
					if payMoves(t, conn, from, to, attempt, verdict) {
						got[arrow+" "+attempt+"/"+verdict] = true
					}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("moves that pass (-want +got):\n%s", diff)
		}
	})
}

// payMoves plants a payout with its evidence, and tells whether it may move.
func payMoves(t *testing.T, conn *pgx.Conn, from, to, outcome, verdict string) bool {
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
	payExecTx(t, tx, "SET LOCAL session_replication_role = replica")
	claim := "'w', 40"
	if from == "PENDING" {
		claim = "NULL, NULL"
	}
	payRows(t, tx, 1, "INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token) VALUES ('b9', 'a1', 1, 'EUR', 'k9', '"+from+"', "+claim+")")
	// A FENCED one beside it says nothing.
	payRows(t, tx, 1, "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES ('e8', 'b9', 'k9', 1, 'FENCED', now())")
	switch outcome {
	case "none":
	case "NULL":
		payRows(t, tx, 1, newAttempt+"('e9', 'b9', 'k9', 40)")
	default:
		payRows(t, tx, 1, "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES ('e9', 'b9', 'k9', 40, '"+outcome+"', now())")
	}
	payExecTx(t, tx, "SET LOCAL session_replication_role = origin")
	if verdict != "none" {
		// The last one that says anything stands.
		if verdict != "UNDETERMINED" {
			payRows(t, tx, 1, resolveAs("PAID", "b9"))
			payRows(t, tx, 1, resolveAs("REJECTED", "b9"))
		}
		payRows(t, tx, 1, resolveAs(verdict, "b9"))
		payRows(t, tx, 1, resolveAs("UNDETERMINED", "b9"))
	}
	moved := attempt(t, tx, qualify("UPDATE payout SET state = '"+to+"' WHERE payout_id = 'b9'", "public"), false)
	if moved != "passed" && moved != "23514 payout_rail_guard" {
		t.Errorf("%s to %s with %s and %s: %s", from, to, outcome, verdict, moved)
	}
	return moved == "passed"
}

// Evidence from another life of the database settles nothing, except that what was
// paid was paid.
//
// Clauses: K-5.3, K-7.9
// Mutation: take the identity, or the exception for PAID, out of payout_verdict.
func TestPayVerdictOfAnotherLife(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		_, conn := paySchema(t, major, "public")
		payBase(t, conn)
		for _, column := range []string{"system_identifier", "timeline_id"} {
			for verdict, want := range map[string]string{"PAID": "PAID", "REJECTED": "none", "NOT_FOUND": "none", "UNDETERMINED": "none"} {
				payTx(t, conn, func(tx pgx.Tx) {
					payRows(t, tx, 1, "INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, "+column+
						") VALUES ('b6', 'rail', '"+verdict+"', '{\"a\": 1}', 'o', 'r', 42)")
					if got := payString(t, conn, "SELECT coalesce(payout_verdict($1), 'none')", id("b", 6)); got != want {
						t.Errorf("%s of another %s stands as %s, want %s", verdict, column, got, want)
					}
					payExecTx(t, tx, "ALTER TABLE payout_resolution DISABLE TRIGGER payout_resolution_append_only; DELETE FROM payout_resolution WHERE timeline_id = 42 OR system_identifier = 42; ALTER TABLE payout_resolution ENABLE ALWAYS TRIGGER payout_resolution_append_only")
				})
			}
		}
	})
}

// A snapshot from before the attempt cannot carry a payout past it.
//
// Clauses: K-4.11, K-5.3, K-2.11
// Mutation: take the isolation check out of payout_rail_guard.
func TestPayLeavesTheRailUnderReadCommitted(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		resource := db.Conn(t, "t_resource")
		for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			tx, err := resource.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
			if err != nil {
				t.Fatal(err)
			}
			payRows(t, tx, 1, "SELECT FROM payout WHERE payout_id = 'b6'")
			if got := attempt(t, tx, qualify("UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b6'", "public"), false); got != "55000 payout_rail_guard" {
				t.Errorf("under %s: %s", isolation, got)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
