package reconcile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// resolved records what was resolved about the payout $P.
func resolved(verdict string) string {
	return `INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason)
		SELECT $P, 'operator', '` + verdict + `', '{"statement": "page 3"}', 'oncall', 'the bank said so';`
}

// The last word on a payout counts, whether the rail said it or an operator; and a
// second attempt is one, whatever the first one came to.
//
// Clauses: K-5.2, K-5.3, K-5.5
// Mutation: take the first verdict, count UNDETERMINED, leave FENCED in, or ask C09
// for an attempt in flight.
func TestRailEdges(t *testing.T) {
	t.Parallel()
	const (
		lost   = "UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL WHERE payout_id = $P;"
		second = `DROP INDEX rail_submission_attempt_uidx;
			INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, submitted_at, resolved_at)
			SELECT gen_random_uuid(), payout_id, idempotency_key, presented_token, 'REJECTED', NULL, submitted_at, resolved_at FROM rail_submission WHERE payout_id = $P;`
		unposted = "DELETE FROM ledger_entry WHERE payout_id = $P;"
	)
	for name, tc := range map[string]struct {
		sql  string
		want []string
	}{
		"healthy":                        {},
		"no answer, and posted":          {lost, []string{"C02"}},
		"no answer, resolved as paid":    {lost + resolved("PAID"), nil},
		"resolved as paid, then refused": {lost + resolved("PAID") + resolved("REJECTED"), []string{"C02"}},
		"resolved as refused, then paid": {lost + resolved("NOT_FOUND") + resolved("PAID"), nil},
		"paid, then nothing more known":  {lost + resolved("PAID") + resolved("UNDETERMINED"), nil},
		// K-5.5 without an ACK: the posting was rejected after an operator's PAID.
		"resolved as paid, and failed": {lost + resolved("PAID") + unposted + "UPDATE payout SET state = 'FAILED' WHERE payout_id = $P;", []string{"C13", "B02"}},
		"paid and refused":             {second, []string{"C09"}},
		"a reference of blanks":        {"UPDATE rail_submission SET rail_reference = ' ' WHERE payout_id = $P;", []string{"C07"}},
		"acknowledged, and in another hand since": {
			`INSERT INTO payout_claim SELECT payout_id, claim_token + 1, claimed_by, updated_at FROM payout WHERE payout_id = $P;
			 UPDATE payout SET claim_token = claim_token + 1 WHERE payout_id = $P;
			 UPDATE ledger_entry SET fence = fence + 1 WHERE payout_id = $P;
			 UPDATE account SET fence = fence + 1 WHERE account_id = (SELECT account_id FROM payout WHERE payout_id = $P);`,
			[]string{"B06"}, // nobody was granted that
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := healthy(t, major)
				exec(t, w.pay, loose)
				// The account's last payout, whose token is the fence.
				exec(t, w.pay, strings.ReplaceAll(tc.sql, "$P", `(SELECT p.payout_id FROM payout p JOIN account a USING (account_id)
					WHERE p.state IN ('POSTED', 'FAILED') AND p.claim_token >= a.fence ORDER BY p.claim_token DESC LIMIT 1)`))
				report := w.run(t, rules(tokenAndRail()...))
				if diff := cmp.Diff(append([]string{}, tc.want...), classes(report.Findings)); diff != "" || len(report.Missing) > 0 {
					t.Errorf("findings on PostgreSQL %d (-want +got):\n%s%+v\nmissing %v", major, diff, report.Findings, report.Missing)
				}
			}
		})
	}
}
