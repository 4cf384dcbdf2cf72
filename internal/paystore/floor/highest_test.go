package floor_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Each place that shows a restored lockdb at once counts, for every role that works on
// paydb; the rail's marks for those who may read them. What is above the limit is no
// token.
//
// Clauses: K-7.6, K-7.2, K-12.1
// Mutation: leave a place out of highest.sql; take the denied mark for an error.
func TestHighest(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, dbs pgtest.Databases) {
		super := dbs.Pay.Conn(t, "super")
		const account = `(SELECT account_id FROM account EXCEPT SELECT account_id FROM clearing_account ORDER BY account_id LIMIT 1)`
		highest := func(login string, limit paystore.Token) paystore.Token {
			t.Helper()
			got, err := floor.Highest(t.Context(), dbs.Pay.Config(t, login), limit)
			if err != nil {
				t.Fatalf("%s: %v", login, err)
			}
			return got
		}
		const most = 1 << 53
		if got := highest("t_auditor", most); got != 0 {
			t.Errorf("before anything: %d", got)
		}
		exec(t, super, `UPDATE account SET fence = 100 WHERE account_id = `+account)
		fence := highest("t_resource", most)
		exec(t, super, `INSERT INTO payout (account_id, payout_id, amount_minor, currency, idempotency_key) SELECT account_id, gen_random_uuid(), 5, currency, 'k' FROM account WHERE account_id = `+account)
		exec(t, super, `UPDATE payout SET state = 'CLAIMED', claimed_by = 'a', claim_token = 200`)
		claim := highest("t_resource", most)
		exec(t, super, `INSERT INTO rail_high_water (account_id, highest_token) VALUES (`+account+`, 300)`)
		mark, blind := highest("t_rail", most), highest("t_resource", most)
		exec(t, super, `UPDATE fence_floor SET floor_token = 400, raised_by = 'erin', reason = 'r' WHERE point = 'rail'`)
		floored, limited := highest("t_operator", most), highest("t_operator", 250)
		if got := [...]paystore.Token{fence, claim, mark, blind, floored, limited}; got != [...]paystore.Token{100, 200, 300, 200, 400, 200} {
			t.Errorf("fence, claim, mark, without the mark, floor, up to 250: %v", got)
		}
	})
}
