package migrations_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// An attempt and the move of its payout away from the rail exclude each other while
// both are under way: whoever comes second waits, and is refused.
//
// Clauses: K-4.11, K-5.3
// Mutation: take FOR UPDATE out of payout_rail_guard, or rail_submission_state out.
func TestPayAttemptRace(t *testing.T) {
	t.Parallel()
	const (
		submits = newAttempt + "('e9', 'b6', 'k6', 25)"
		fails   = "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b6'"
		acks    = "UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = 'b6'"
	)
	onMajors(t, func(t *testing.T, major int) {
		for _, race := range []struct{ what, first, firstSQL, second, secondSQL, want string }{
			{"attempt, then failed", "t_rail", submits, "t_resource", fails, "23514 payout_rail_guard"},
			{"attempt, then acknowledged", "t_rail", submits, "t_resource", acks, "23514 payout_rail_guard"},
			{"failed, then attempt", "t_resource", fails, "t_rail", submits, "23514 rail_submission_state"},
			{"acknowledged, then attempt", "t_resource", acks, "t_rail", submits, "23514 rail_submission_state"},
		} {
			t.Run(race.what, func(t *testing.T) {
				t.Parallel()
				db, super := paySchema(t, major, "public")
				payBase(t, super)
				one, two := db.Conn(t, race.first), db.Conn(t, race.second)
				tx, err := one.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				payRows(t, tx, 1, race.firstSQL)
				second := make(chan error, 1)
				go func() {
					_, err := two.Exec(t.Context(), qualify(race.secondSQL, "public"))
					second <- err
				}()
				payWaitBlocked(t, super, two.PgConn().PID())
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := refusal(<-second); got != race.want {
					t.Errorf("second: got %q, want %q", got, race.want)
				}
			})
		}
	})
}

// What the clients of the two services do to a payout, in no order. Each statement
// is guarded by its WHERE and by the database alone: a client goes wherever the
// database lets it.
var payMess = struct{ resource, rail [][]string }{
	resource: [][]string{
		{"UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = @token WHERE payout_id = @payout AND state = 'PENDING'"},
		{"UPDATE payout SET claim_token = @token WHERE payout_id = @payout AND claim_token < @token AND state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_AMBIGUOUS', 'RAIL_ACKED')"},
		{"UPDATE payout SET state = 'RAIL_SUBMITTED' WHERE payout_id = @payout AND state = 'CLAIMED'"},
		{"UPDATE payout SET state = 'FAILED' WHERE payout_id = @payout AND state IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS')"},
		{"UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = @payout AND state IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS') AND EXISTS (SELECT FROM rail_submission s WHERE s.payout_id = @payout)"},
		{"UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = @payout AND state = 'RAIL_SUBMITTED'"},
		// A resolution, as V20 asks for it: the payout's row first.
		{
			"SELECT FROM payout WHERE payout_id = @payout FOR UPDATE",
			"INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) SELECT @payout, 'rail', 'NOT_FOUND', '{\"a\": 1}', 'o', 'r' WHERE @token % 9 = 0",
			"UPDATE payout SET state = 'FAILED' WHERE payout_id = @payout AND state IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS')",
		},
		// A posting, with the takeover first (K-5.1) and C1's order.
		{
			"UPDATE payout SET claim_token = @token WHERE payout_id = @payout AND claim_token < @token AND state = 'RAIL_ACKED'",
			"UPDATE account SET balance_minor = balance_minor - 1, fence = @token WHERE account_id = @account AND fence < @token AND balance_minor >= 1",
			"INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) SELECT gen_random_uuid(), @payout, a.account_id, 'DEBIT', 1, @token FROM account a WHERE a.account_id = @account AND a.fence <= @token",
			"UPDATE payout SET state = 'POSTED' WHERE payout_id = @payout AND state = 'RAIL_ACKED' AND claim_token <= @token",
			"UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = 'c0000000-0000-0000-0000-000000000001'",
			"INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), @payout, 'c0000000-0000-0000-0000-000000000001', 'CREDIT', 1, @token)",
		},
	},
	rail: [][]string{
		{
			"INSERT INTO rail_high_water AS h (account_id, highest_token) SELECT @account, claim_token FROM payout WHERE payout_id = @payout AND claim_token IS NOT NULL ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token WHERE h.highest_token < EXCLUDED.highest_token",
			"INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) SELECT gen_random_uuid(), p.payout_id, p.idempotency_key, p.claim_token FROM payout p WHERE p.payout_id = @payout AND p.claim_token IS NOT NULL ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING",
		},
		{"UPDATE rail_submission SET outcome = (ARRAY['ACKED', 'ACKED', 'REJECTED', 'TIMEOUT'])[1 + @token % 4], resolved_at = now() WHERE payout_id = @payout AND outcome IS NULL"},
		{"UPDATE rail_submission SET outcome = (ARRAY['ACKED', 'REJECTED'])[1 + @token % 2], resolved_at = now() WHERE payout_id = @payout AND outcome = 'TIMEOUT'"},
	},
}

// Many clients of both services on few payouts: no deadlock, whatever they do, and
// no payout ends against its attempt or with half a posting.
//
// Clauses: K-4.7, K-4.11, K-5.3
// Mutation: lock the account before the payout in payout_rail_guard, or take any of
// V20's to V22's triggers out.
func TestPayManyClients(t *testing.T) {
	t.Parallel()
	const clients, steps, payouts = 12, 250, 24
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		payExec(t, super, fmt.Sprintf(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
			SELECT ('f0000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, ('a0000000-0000-0000-0000-00000000000' || 1 + n %% 2)::uuid, 1, 'EUR', 'm' || n FROM generate_series(1, %d) n`, payouts))
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() { payClient(t, db, client, steps, payouts) })
		}
		wg.Wait()
		rows, err := super.Query(t.Context(), `
			SELECT format('payout %s is %s, attempt %s, legs %s', p.idempotency_key, p.state, coalesce(s.outcome, 'in flight'), l.n)
			  FROM payout p
			  LEFT JOIN rail_submission s ON s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'
			  CROSS JOIN LATERAL (SELECT count(*) n FROM ledger_entry e WHERE e.payout_id = p.payout_id AND e.fence = p.claim_token) l
			 WHERE p.idempotency_key LIKE 'm%'
			   AND ((p.state = 'POSTED') <> (l.n = 2) OR (p.state <> 'POSTED' AND l.n > 0)
			        OR (p.state IN ('RAIL_ACKED', 'POSTED') AND s.outcome IS DISTINCT FROM 'ACKED')
			        OR (p.state = 'FAILED' AND s.submission_id IS NOT NULL AND s.outcome IS DISTINCT FROM 'REJECTED'
			            AND (s.outcome IS NULL OR NOT EXISTS (SELECT FROM payout_resolution r WHERE r.payout_id = p.payout_id))))`)
		if err != nil {
			t.Fatal(err)
		}
		broken, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{}, broken); diff != "" {
			t.Errorf("broken payouts:\n%s", diff)
		}
		// Something has happened, in every direction.
		if got := payString(t, super, "SELECT count(DISTINCT state) || ' final states' FROM payout WHERE idempotency_key LIKE 'm%' AND state IN ('POSTED', 'FAILED')"); got != "2 final states" {
			t.Errorf("after all: %s", got)
		}
	})
}

// payClient does steps things to payouts, as one of the two services.
func payClient(t *testing.T, db pgtest.DB, client, steps, payouts int) {
	login, verbs := "t_resource", payMess.resource
	if client%3 == 0 {
		login, verbs = "t_rail", payMess.rail
	}
	conn, err := pgx.Connect(t.Context(), db.DSN(login))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(t.Context()) }()
	dice := rand.New(rand.NewPCG(4, uint64(client)))
	for step := range steps {
		n := 1 + dice.IntN(payouts)
		args := pgx.NamedArgs{"token": 100 + step*20 + client, "payout": id("f", n), "account": id("a", 1+n%2)}
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			for _, sql := range verbs[dice.IntN(len(verbs))] {
				tag, err := tx.Exec(t.Context(), sql, args)
				if err != nil {
					return err
				}
				// 0 rows of (a), (b) or (c): the posting is over.
				if tag.RowsAffected() == 0 && login == "t_resource" {
					return pgx.ErrNoRows
				}
			}
			return nil
		})
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code != "23514" && refused.Code != "23505" {
			t.Errorf("client %d: %v", client, err)
			return
		}
	}
}
