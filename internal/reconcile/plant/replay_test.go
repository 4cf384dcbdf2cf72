package plant_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// history lists what happened in paydb, in order: each row a statement of lifeSQL and
// what it needs. The answer of an attempt comes with the attempt.
const history = `
SELECT what, payout_id::text, coalesce(token, 0), coalesce(by_, '')
  FROM (
    SELECT created_at AS at, 1 AS step, 'create' AS what, payout_id, NULL::bigint AS token, NULL AS by_ FROM payout
    UNION ALL SELECT claimed_at, 2, 'claim', payout_id, claim_token, claimed_by FROM payout_claim
    UNION ALL SELECT submitted_at, 3, CASE WHEN outcome = 'FENCED' THEN 'refuse' ELSE 'submit' END, payout_id, presented_token, submission_id::text FROM rail_submission
    UNION ALL SELECT resolved_at, 4, CASE
        WHEN outcome = 'ACKED' AND NOT EXISTS (SELECT FROM payout_resolution r WHERE r.payout_id = s.payout_id) THEN 'ack'
        WHEN outcome = 'ACKED' THEN 'time out, ack late' WHEN outcome = 'REJECTED' THEN 'reject' ELSE 'time out' END, payout_id, presented_token, rail_reference
      FROM rail_submission s WHERE outcome <> 'FENCED'
    UNION ALL SELECT recorded_at, 5, CASE verdict WHEN 'PAID' THEN 'resolve paid' ELSE 'resolve undetermined' END, payout_id, NULL, NULL FROM payout_resolution
    UNION ALL SELECT updated_at, 6, CASE state WHEN 'PENDING' THEN 'release' WHEN 'POSTED' THEN 'post' WHEN 'ABANDONED' THEN 'abandon' ELSE 'fail' END, payout_id, claim_token, NULL
      FROM payout p WHERE state IN ('POSTED', 'FAILED', 'ABANDONED') OR state = 'PENDING' AND EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = p.payout_id)
    UNION ALL SELECT raised_at, 7, 'raise', (SELECT p.payout_id FROM payout p WHERE p.account_id = r.account_id LIMIT 1), raised_to, NULL FROM account_fence_raise r
  ) event
 ORDER BY at, step`

// lifeSQL is how the guards are asked for it: each statement must change one row.
// @payout, @token and @by stand for the history's values; the first world's rows stand
// in the schema first.
func lifeSQL() map[string][]string {
	return map[string][]string{
		"create": {`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) SELECT payout_id, account_id, amount_minor, currency, idempotency_key FROM first.payout WHERE payout_id = @payout`},
		"claim":  {`UPDATE payout SET state = CASE state WHEN 'PENDING' THEN 'CLAIMED' ELSE state END, claimed_by = @by, claim_token = @token WHERE payout_id = @payout`},
		"submit": {
			`UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = attempt_count + 1 WHERE payout_id = @payout AND state = 'CLAIMED' AND claim_token = @token`,
			`INSERT INTO rail_high_water AS h (account_id, highest_token) SELECT account_id, @token FROM payout WHERE payout_id = @payout
		 ON CONFLICT (account_id) DO UPDATE SET highest_token = excluded.highest_token WHERE h.highest_token < excluded.highest_token`,
			`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) SELECT @by::uuid, payout_id, idempotency_key, @token FROM payout WHERE payout_id = @payout`,
		},
		"refuse":               {`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) SELECT @by::uuid, payout_id, idempotency_key, @token, 'FENCED', now() FROM payout WHERE payout_id = @payout`},
		"ack":                  {ack, `UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = @payout AND state = 'RAIL_SUBMITTED'`},
		"reject":               {`UPDATE rail_submission SET outcome = 'REJECTED', resolved_at = now() WHERE payout_id = @payout AND outcome IS NULL`},
		"time out":             {timeout, ambiguous},
		"time out, ack late":   {timeout, ambiguous, ack},
		"resolve paid":         {resolve("PAID"), `UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = @payout AND state = 'RAIL_AMBIGUOUS'`},
		"resolve undetermined": {resolve("UNDETERMINED")},
		"release":              {`UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL WHERE payout_id = @payout AND state = 'CLAIMED'`},
		"fail":                 {`UPDATE payout SET state = 'FAILED' WHERE payout_id = @payout`},
		"abandon":              {`UPDATE payout SET state = 'ABANDONED' WHERE payout_id = @payout AND state = 'RAIL_AMBIGUOUS'`},
		"post": {
			`UPDATE account a SET balance_minor = a.balance_minor - p.amount_minor, fence = @token FROM payout p
		  WHERE p.payout_id = @payout AND a.account_id = p.account_id AND a.currency = p.currency AND a.fence < @token AND a.balance_minor >= p.amount_minor`,
			leg("DEBIT"),
			`UPDATE payout SET state = 'POSTED' WHERE payout_id = @payout AND state = 'RAIL_ACKED' AND claim_token <= @token`,
			`UPDATE account a SET balance_minor = a.balance_minor + l.amount_minor FROM first.ledger_entry l WHERE l.payout_id = @payout AND l.direction = 'CREDIT' AND a.account_id = l.account_id`,
			leg("CREDIT"),
		},
		"raise": {
			`INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) SELECT a.account_id, a.fence, @token, 'o', 'r' FROM payout JOIN account a USING (account_id) WHERE payout_id = @payout`,
			`UPDATE account a SET fence = @token FROM payout p WHERE p.payout_id = @payout AND a.account_id = p.account_id`,
			`UPDATE rail_high_water h SET highest_token = @token FROM payout p WHERE p.payout_id = @payout AND h.account_id = p.account_id`,
		},
	}
}

const (
	timeout   = `UPDATE rail_submission SET outcome = 'TIMEOUT', resolved_at = now() WHERE payout_id = @payout AND outcome IS NULL`
	ambiguous = `UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = @payout AND state = 'RAIL_SUBMITTED'`
	ack       = `UPDATE rail_submission SET outcome = 'ACKED', rail_reference = @by, resolved_at = now() WHERE payout_id = @payout AND outcome IS DISTINCT FROM 'FENCED'`
)

func resolve(verdict string) string {
	return `INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (@payout, 'rail', '` + verdict + `', '{"key": "k"}', 'o', 'r')`
}

func leg(direction string) string {
	return `INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
		SELECT l.entry_id, l.payout_id, a.account_id, l.direction, l.amount_minor, @token FROM first.ledger_entry l JOIN account a USING (account_id)
		 WHERE l.payout_id = @payout AND l.direction = '` + direction + `' AND a.fence <= @token`
}

// event is a row of the history.
type event struct {
	What, Payout string
	Token        int64
	By           string
}

// The real guards let the same history come about, statement by statement, and end at
// the same rows.
//
// Clauses: K-8.4
// Mutation: let a story submit under a token that did not claim, or a clearing shard be
// of another currency.
func TestGuardsLetTheWorldComeAbout(t *testing.T) {
	t.Parallel()
	major := pgtest.Majors()[0]
	w := healthy(t, major, plant.Params{Payouts: 700, Accounts: 80, Seed: 11, Open: 2})
	again := pgtest.Migrated(t, major).Pay.Conn(t, "super")
	for _, table := range strings.Fields("account payout payout_claim ledger_entry rail_submission rail_high_water account_fence_raise opening_balance") {
		carry(t, w.pay, again, table)
	}
	for _, sql := range []string{
		`INSERT INTO account (account_id, currency, balance_minor) SELECT account_id, currency, amount_minor FROM first.account JOIN first.opening_balance USING (account_id) ON CONFLICT DO NOTHING`,
		`INSERT INTO opening_balance SELECT * FROM first.opening_balance ON CONFLICT DO NOTHING`,
	} {
		if _, err := again.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	rows, err := w.pay.Query(t.Context(), history)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		live(t, again, e)
	}
	for _, sql := range []string{
		`SELECT account_id, currency, balance_minor, fence FROM %s.account`,
		`SELECT payout_id, state, claimed_by, claim_token, amount_minor, attempt_count FROM %s.payout`,
		`SELECT payout_id, claim_token, claimed_by FROM %s.payout_claim`,
		`SELECT entry_id, payout_id, account_id, direction, amount_minor, fence FROM %s.ledger_entry`,
		`SELECT submission_id, payout_id, presented_token, outcome, rail_reference FROM %s.rail_submission`,
		`SELECT account_id, highest_token FROM %s.rail_high_water`,
		`SELECT account_id, raised_from, raised_to FROM %s.account_fence_raise`,
	} {
		was, is := strings.Replace(sql, "%s", "first", 1), strings.Replace(sql, "%s", "public", 1)
		if diff := lines(t, again, "WITH w AS ("+was+"), i AS ("+is+") (TABLE w EXCEPT TABLE i) UNION ALL (TABLE i EXCEPT TABLE w)"); len(diff) > 0 {
			t.Errorf("%s: %d rows differ, such as %s", sql, len(diff), diff[0])
		}
	}
}

// carry copies a table into the schema first of another database.
func carry(t *testing.T, from, to *pgx.Conn, table string) {
	t.Helper()
	if _, err := to.Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS first; CREATE TABLE first."+table+" (LIKE public."+table+")"); err != nil {
		t.Fatal(err)
	}
	var rows bytes.Buffer
	if _, err := from.PgConn().CopyTo(t.Context(), &rows, "COPY "+table+" TO STDOUT"); err != nil {
		t.Fatal(err)
	}
	if _, err := to.PgConn().CopyFrom(t.Context(), &rows, "COPY first."+table+" FROM STDIN"); err != nil {
		t.Fatal(err)
	}
}

// live does what happened, in one transaction.
func live(t *testing.T, on *pgx.Conn, e event) {
	t.Helper()
	statements, known := lifeSQL()[e.What]
	if !known {
		t.Fatalf("nobody knows how to %s", e.What)
	}
	err := pgx.BeginFunc(t.Context(), on, func(tx pgx.Tx) error {
		for _, sql := range statements {
			tag, err := tx.Exec(t.Context(), sql, pgx.NamedArgs{"payout": e.Payout, "token": e.Token, "by": e.By})
			if err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("%s: %d rows", sql, tag.RowsAffected())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
}
