package plant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a healthy world of a test's own.
type world struct {
	*plant.World
	pay, lock *pgx.Conn
}

// small has every kind of payout in it.
var small = plant.Params{Payouts: 900, Accounts: 96, Seed: 7, Open: 3}

func healthy(t *testing.T, major int, p plant.Params) world {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	w := world{pay: dbs.Pay.Conn(t, "super"), lock: dbs.Lock.Conn(t, "super")}
	var err error
	if w.World, err = plant.Healthy(t.Context(), w.pay, w.lock, p); err != nil {
		t.Fatal(err)
	}
	return w
}

// lines are the rows of a query, its columns joined.
func lines(t *testing.T, on *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := on.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return strings.TrimSpace(fmt.Sprintln(values...)), err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// payMustBeEmpty are queries for what the clauses of a healthy world exclude.
func payMustBeEmpty() map[string]string {
	return map[string]string{
		"an account without opening":    `SELECT account_id FROM account LEFT JOIN opening_balance o USING (account_id) WHERE o.account_id IS NULL`,
		"a balance that does not agree": `SELECT a.account_id FROM account a JOIN opening_balance o USING (account_id) WHERE a.balance_minor <> o.amount_minor + coalesce((SELECT sum(CASE direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END) FROM ledger_entry l WHERE l.account_id = a.account_id), 0)`,
		"a posting without its two legs": `SELECT p.payout_id FROM payout p WHERE state = 'POSTED' AND 1 <> (
			SELECT count(*) FROM ledger_entry d JOIN ledger_entry c USING (payout_id) JOIN clearing_account k ON k.account_id = c.account_id
			 WHERE d.payout_id = p.payout_id AND d.direction = 'DEBIT' AND c.direction = 'CREDIT' AND d.account_id = p.account_id AND k.currency = p.currency
			   AND d.amount_minor = p.amount_minor AND c.amount_minor = p.amount_minor AND d.fence = p.claim_token AND c.fence = p.claim_token)`,
		"a third leg":                     `SELECT payout_id FROM ledger_entry GROUP BY 1 HAVING count(*) <> 2`,
		"legs without a posting":          `SELECT payout_id FROM ledger_entry JOIN payout USING (payout_id) WHERE state <> 'POSTED'`,
		"a posting without its one ACK":   `SELECT payout_id FROM payout p WHERE state = 'POSTED' AND 1 <> (SELECT count(*) FROM rail_submission s WHERE s.payout_id = p.payout_id AND outcome = 'ACKED' AND rail_reference IS NOT NULL)`,
		"a token presented, not claimed":  `SELECT submission_id FROM rail_submission s WHERE outcome IS DISTINCT FROM 'FENCED' AND NOT EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = s.payout_id AND c.claim_token = s.presented_token)`,
		"a claim that is not the last":    `SELECT payout_id FROM payout p WHERE claim_token <> (SELECT max(claim_token) FROM payout_claim c WHERE c.payout_id = p.payout_id)`,
		"a fence that nobody explains":    `SELECT account_id FROM account a WHERE NOT EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id) AND fence <> greatest((SELECT max(fence) FROM ledger_entry l WHERE l.account_id = a.account_id), (SELECT max(raised_to) FROM account_fence_raise r WHERE r.account_id = a.account_id), 0)`,
		"a raise from elsewhere":          `SELECT account_id FROM account_fence_raise r WHERE raised_from <> (SELECT max(fence) FROM ledger_entry l WHERE l.account_id = r.account_id AND created_at < raised_at)`,
		"a clearing account with a fence": `SELECT account_id FROM account JOIN clearing_account USING (account_id) WHERE fence <> 0`,
		"a mark too low":                  `SELECT account_id, payout_id FROM rail_submission s JOIN payout p USING (payout_id) LEFT JOIN rail_high_water h USING (account_id) WHERE outcome IS DISTINCT FROM 'FENCED' AND presented_token > coalesce(highest_token, 0)`,
		"a token of two payers":           `SELECT c.claim_token FROM payout_claim c JOIN payout USING (payout_id) GROUP BY 1 HAVING count(DISTINCT account_id) > 1 OR count(DISTINCT c.claimed_by) > 1`,
		"legs out of order":               `SELECT * FROM (SELECT account_id, fence, max(fence) OVER (PARTITION BY account_id ORDER BY created_at) AS highest FROM ledger_entry WHERE direction = 'DEBIT') l WHERE fence < highest`,
		"times out of order":              `SELECT payout_id FROM payout p WHERE updated_at < created_at OR updated_at > now() OR EXISTS (SELECT FROM ledger_entry l WHERE l.payout_id = p.payout_id AND l.created_at < p.created_at) OR EXISTS (SELECT FROM rail_submission s WHERE s.payout_id = p.payout_id AND (submitted_at < p.created_at OR resolved_at < submitted_at))`,
		"another key at the rail":         `SELECT submission_id FROM rail_submission s JOIN payout p USING (payout_id) WHERE s.idempotency_key <> p.idempotency_key`,
		"a reference used twice":          `SELECT rail_reference FROM rail_submission GROUP BY 1 HAVING rail_reference IS NOT NULL AND count(*) > 1`,
		"money out without a debit":       `SELECT payout_id FROM payout JOIN rail_submission USING (payout_id) WHERE state IN ('FAILED', 'ABANDONED') AND outcome = 'ACKED'`,
		"two payouts of one amount":       `SELECT account_id, amount_minor FROM payout GROUP BY 1, 2 HAVING count(*) > 1`,
		"a currency of another account":   `SELECT payout_id FROM payout p JOIN account a USING (account_id) WHERE p.currency <> a.currency`,
	}
}

// wanted are queries that must find something: what a world has to hold.
func wanted() map[string]string {
	open := `SELECT 1 FROM payout WHERE state = `
	return map[string]string{
		"PENDING": open + "'PENDING'", "CLAIMED": open + "'CLAIMED'", "RAIL_SUBMITTED": open + "'RAIL_SUBMITTED'", "RAIL_ACKED": open + "'RAIL_ACKED'",
		"RAIL_AMBIGUOUS": open + "'RAIL_AMBIGUOUS'", "POSTED": open + "'POSTED'", "FAILED": open + "'FAILED'", "ABANDONED": open + "'ABANDONED'",
		"a PENDING one given back":     `SELECT FROM payout JOIN payout_claim USING (payout_id) WHERE state = 'PENDING'`,
		"presented by an earlier one":  `SELECT FROM payout JOIN rail_submission USING (payout_id) WHERE state = 'POSTED' AND outcome = 'ACKED' AND presented_token < claim_token`,
		"a refusal at the rail":        `SELECT FROM rail_submission WHERE outcome = 'FENCED'`,
		"a resolution":                 `SELECT FROM payout_resolution WHERE verdict = 'PAID'`,
		"a fence raised by hand":       `SELECT FROM account_fence_raise JOIN account USING (account_id) WHERE raised_to = fence`,
		"three currencies":             `SELECT FROM account HAVING count(DISTINCT currency) = 3`,
		"all clearing accounts in use": `SELECT FROM ledger_entry JOIN clearing_account USING (account_id) HAVING count(DISTINCT account_id) = 12`,
	}
}

// The ordinary constraints hold although nothing looked at them while the world was
// loaded, and every clause of a healthy world holds by other SQL than the rules'.
//
// Clauses: K-8.4
// Mutation: let a story post a payout under another token than the last claim's, or
// leave the clearing balances at 0.
func TestHealthyWorldIsConsistent(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			w := healthy(t, major, small)
			for what, sql := range payMustBeEmpty() {
				if found := lines(t, w.pay, sql); len(found) > 0 {
					t.Errorf("%s: %d, such as %s", what, len(found), found[0])
				}
			}
			for what, sql := range wanted() {
				if found := lines(t, w.pay, sql); len(found) == 0 {
					t.Errorf("the world holds no %s", what)
				}
			}
			for _, on := range []*pgx.Conn{w.pay, w.lock} {
				checkConstraints(t, on)
				checkTriggers(t, on)
			}
			checkTokens(t, w)
		})
	}
}

// checkConstraints makes each foreign key and check a second time, which reads every
// row, and builds the unique indexes anew.
func checkConstraints(t *testing.T, on *pgx.Conn) {
	t.Helper()
	constraints := lines(t, on, `
		SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, 'again_' || oid, pg_get_constraintdef(oid))
		  FROM pg_constraint WHERE contype IN ('f', 'c') AND conrelid <> 0 AND connamespace = 'public'::regnamespace AND conparentid = 0 AND conislocal`)
	if len(constraints) < 10 {
		t.Fatalf("found only %d constraints", len(constraints))
	}
	for _, sql := range append(constraints, "REINDEX SCHEMA public") {
		if _, err := on.Exec(t.Context(), strings.Replace(sql, " NOT VALID", "", 1)); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// checkTriggers fails for a guard that is not as the migrations left it.
func checkTriggers(t *testing.T, on *pgx.Conn) {
	t.Helper()
	const off = `SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> CASE WHEN tgname = 'operator_log_chain' THEN 'O' WHEN tgname LIKE '%\_applied' THEN 'R' ELSE 'A' END::"char"`
	if found := lines(t, on, off); len(found) > 0 {
		t.Errorf("the world left triggers disabled: %v", found)
	}
}

// checkTokens compares the uses of tokens in paydb with lockdb's journal.
func checkTokens(t *testing.T, w world) {
	t.Helper()
	const uses = `SELECT format('%s account:%s %s', c.claim_token, account_id, c.claimed_by) FROM payout_claim c JOIN payout USING (payout_id)`
	journal := lines(t, w.lock, `SELECT format('%s %s %s', fencing_token, lock_key, owner_id) FROM lock_grant`)
	for _, use := range lines(t, w.pay, uses) {
		if !slices.Contains(journal, use) {
			t.Errorf("no grant of %s", use)
		}
	}
	raised := lines(t, w.pay, `SELECT raised_to FROM account_fence_raise UNION SELECT highest_token FROM rail_high_water WHERE highest_token NOT IN (SELECT claim_token FROM payout_claim) ORDER BY 1`)
	drawn := lines(t, w.lock, `SELECT token FROM operator_log WHERE action = 'fence_account' ORDER BY 1`)
	if diff := cmp.Diff(drawn, raised); diff != "" {
		t.Errorf("fences drawn and raised (-drawn +raised):\n%s", diff)
	}
	for what, sql := range map[string]string{
		"a broken chain":                 `SELECT id FROM (SELECT id, hash, previous_hash, lag(hash) OVER (ORDER BY id) AS link, operator_log_hash(l) AS own FROM operator_log l) c WHERE hash <> own OR previous_hash <> coalesce(link, sha256(''))`,
		"tokens that were never issued":  `SELECT fencing_token FROM lock_grant WHERE fencing_token > (SELECT last_value FROM fencing_token_seq)`,
		"a grant that ended too early":   `SELECT fencing_token FROM lock_grant WHERE ended_at < granted_at`,
		"grants of a key that overlap":   `SELECT * FROM (SELECT fencing_token, granted_at, lag(ended_at) OVER (PARTITION BY lock_key ORDER BY fencing_token) AS before FROM lock_grant) g WHERE granted_at < before`,
		"a standing grant without lock":  `SELECT fencing_token FROM lock_grant LEFT JOIN lock_entry e USING (fencing_token, lock_key, owner_id, session_id) WHERE ended IS NULL AND e.lock_key IS NULL`,
		"a lock without standing grant":  `SELECT lock_key FROM lock_entry LEFT JOIN lock_grant g USING (fencing_token, lock_key, owner_id, session_id) WHERE g.ended IS NOT NULL OR g.granted_at IS DISTINCT FROM acquired_at`,
		"a revoked end without audit":    `SELECT fencing_token FROM lock_grant g FULL JOIN lock_revocation r ON (prev_token, r.lock_key, prev_owner) = (fencing_token, g.lock_key, owner_id) WHERE coalesce(ended = 'revoked', false) <> coalesce(revoked_at = ended_at, false)`,
		"an end that the world lacks":    `SELECT * FROM unnest(ARRAY['released', 'expired', 'taken_over', 're_entered', 'revoked', 'reaped']) e WHERE e NOT IN (SELECT ended FROM lock_grant WHERE ended IS NOT NULL)`,
		"rows outside their partition":   `SELECT fencing_token FROM lock_grant_default`,
		"a key held without its session": `SELECT lock_key FROM lock_entry LEFT JOIN lock_session USING (session_id, owner_id) WHERE lock_session.expires_at IS NULL OR lock_session.expires_at < now()`,
	} {
		if found := lines(t, w.lock, sql); len(found) > 0 {
			t.Errorf("%s: %d, such as %s", what, len(found), found[0])
		}
	}
	late := `SELECT format('%s %s', claim_token, claimed_at) FROM payout_claim UNION ALL SELECT format('%s %s', fence, created_at) FROM ledger_entry UNION ALL SELECT format('%s %s', presented_token, submitted_at) FROM rail_submission`
	if _, err := w.lock.Exec(t.Context(), `CREATE TEMP TABLE use (token BIGINT, at TIMESTAMPTZ)`); err != nil {
		t.Fatal(err)
	}
	for _, use := range lines(t, w.pay, late) {
		token, at, _ := strings.Cut(use, " ")
		if _, err := w.lock.Exec(t.Context(), `INSERT INTO use VALUES ($1::text::bigint, $2::text::timestamptz)`, token, at); err != nil {
			t.Fatal(err)
		}
	}
	if found := lines(t, w.lock, `SELECT token FROM use JOIN lock_revocation ON prev_token = token WHERE at > revoked_at`); len(found) > 0 {
		t.Errorf("revoked tokens wrote afterwards: %v", found)
	}
	if found := lines(t, w.lock, `SELECT token FROM use JOIN lock_grant ON fencing_token = token WHERE at < granted_at`); len(found) > 0 {
		t.Errorf("tokens were used before they were granted: %v", found)
	}
}

// The same seed makes the same money and the same tokens; another one does not.
//
// Clauses: K-8.4
// Mutation: take the clock for the seed.
func TestHealthyWorldIsDeterministic(t *testing.T) {
	t.Parallel()
	digest := func(seed uint64) []string {
		p := plant.Params{Payouts: 60, Accounts: 20, Seed: seed, Open: 1}
		w := healthy(t, pgtest.Majors()[0], p)
		return append(
			lines(t, w.pay, `SELECT account_id, balance_minor, fence FROM account ORDER BY 1`),
			lines(t, w.pay, `SELECT payout_id, amount_minor, state, claimed_by FROM payout ORDER BY 1`)...)
	}
	first := digest(1)
	if diff := cmp.Diff(first, digest(1)); diff != "" {
		t.Errorf("one seed, two worlds:\n%s", diff)
	}
	if cmp.Equal(first, digest(2)) {
		t.Error("two seeds made one world")
	}
}

// Clauses: K-8.4
// Mutation: take the check of the parameters out.
func TestHealthyRefusesWhatItCannotMake(t *testing.T) {
	t.Parallel()
	for _, p := range []plant.Params{{Payouts: 10, Accounts: 4}, {Payouts: 20, Accounts: 10}, {Payouts: 90, Accounts: 30, Open: 4}, {Payouts: 90, Accounts: 30, Open: -1}} {
		if _, err := plant.Healthy(t.Context(), nil, nil, p); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
