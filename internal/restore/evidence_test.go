package restore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// Each source in turn has the highest token: the plan says which one it is, names the
// row it stands in and when it was written, keeps a margin above it and says what is
// left of 2^53. Those that had it before keep their own. Who is connected is listed.
//
// Clauses: K-7.2, K-7.3, K-1.6
// Mutation: read another column, row or time in one of evidence_*.sql or rewind_evidence_*.sql, or leave a source
// out; take Last for Target in Headroom; leave traffic out of Prepare.
func TestEverySourceIsEvidence(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s, opts := w.stores(t, how{}), options() // before the guards are off
		for conn, tables := range map[*pgx.Conn][]string{
			w.pay:  {"account", "payout", "payout_claim", "ledger_entry", "rail_submission", "rail_high_water", "account_fence_raise", "fence_floor"},
			w.lock: {"lock_entry", "lock_grant", "lock_revocation", "operator_log"},
		} {
			for _, table := range tables { // each table alone, whatever its guards tie together
				exec(t, conn, `ALTER TABLE `+table+` DISABLE TRIGGER ALL`)
			}
		}
		other := w.dbs.Lock.Conn(t, "t_lockapp")
		written := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		account := one[string](t, w.pay, `SELECT min(account_id::text) FROM (SELECT account_id FROM account EXCEPT SELECT account_id FROM clearing_account) a`)
		const payout, attempt, leg = "40000000-0000-4000-8000-000000000004", "50000000-0000-4000-8000-000000000005", "60000000-0000-4000-8000-000000000006"
		put := func(conn *pgx.Conn, sql string, ids ...any) func(lockstore.Token) {
			return func(token lockstore.Token) { exec(t, conn, sql, append([]any{int64(token), written}, ids...)...) }
		}
		grant := func(token lockstore.Token, key string) {
			exec(t, w.lock, `INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at) VALUES ($1, $2, 'x', gen_random_uuid(), $3)`, int64(token), key, written)
		}
		var want []lockstore.Evidence
		for n, tt := range []struct {
			source, row string
			at          time.Time
			put         func(lockstore.Token)
		}{
			{"account.fence", "account " + account, written, put(w.pay, `UPDATE account SET fence = $1, updated_at = $2 WHERE account_id = $3`, account)},
			{"payout.claim_token", "payout " + payout, written, put(w.pay, `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token, updated_at)
				SELECT $4, account_id, 100, currency, 'k', 'CLAIMED', 'w', $1, $2 FROM account WHERE account_id = $3`, account, payout)},
			{"payout_claim.claim_token", "payout " + payout, written, put(w.pay, `INSERT INTO payout_claim (claim_token, claimed_at, payout_id, claimed_by) VALUES ($1, $2, $3, 'w')`, payout)},
			{"ledger_entry.fence", "leg " + leg, written, put(w.pay, `INSERT INTO ledger_entry (fence, created_at, account_id, payout_id, entry_id, direction, amount_minor) VALUES ($1, $2, $3, $4, $5, 'DEBIT', 100)`, account, payout, leg)},
			{"rail_submission.presented_token", "attempt " + attempt, written, put(w.pay, `INSERT INTO rail_submission (presented_token, submitted_at, payout_id, submission_id, idempotency_key) VALUES ($1, $2, $3, $4, 'k')`, payout, attempt)},
			{"rail_high_water.highest_token", "account " + account, written, put(w.pay, `INSERT INTO rail_high_water (highest_token, updated_at, account_id) VALUES ($1, $2, $3)`, account)},
			{"account_fence_raise.raised_to", "raise 1", written, put(w.pay, `INSERT INTO account_fence_raise (raised_to, raised_at, account_id, raised_from, operator, reason) VALUES ($1, $2, $3, 0, 'o', 'r')`, account)},
			{"fence_floor.account", "floor of account", written, put(w.pay, `UPDATE fence_floor SET floor_token = $1, raised_at = $2 WHERE point = 'account'`)},
			{"fence_floor.rail", "floor of rail", written, put(w.pay, `UPDATE fence_floor SET floor_token = $1, raised_at = $2 WHERE point = 'rail'`)},
			{"operator", "as the operator says", time.Time{}, func(token lockstore.Token) { opts.Observed = token }},
			{"old_primary", "fencing_token_seq", written, func(token lockstore.Token) {
				s.Old = &lockstore.OldPrimary{Last: token, At: lockstore.Time{Time: written}}
			}},
			{"lock_entry.fencing_token", "lock 'entered'", written, put(w.lock, `INSERT INTO lock_entry (fencing_token, acquired_at, lock_key, owner_id, session_id, expires_at) VALUES ($1, $2, 'entered', 'x', gen_random_uuid(), now())`)},
			// A row that the journal does not vouch for is no evidence, so that the grant comes with it.
			{"lock_revocation.prev_token", "audit row 1", written, func(token lockstore.Token) {
				grant(token, "revoked")
				put(w.lock, `INSERT INTO lock_revocation (prev_token, revoked_at, lock_key, prev_owner, operator, reason) VALUES ($1, $2, 'revoked', 'x', 'o', 'r')`)(token)
			}},
			{"lock_grant.fencing_token", "lock 'granted'", written, func(token lockstore.Token) { grant(token, "granted") }},
			{"operator_log.token", "record 8, revoke", written, put(w.lock, `INSERT INTO operator_log (token, logged_at, id, action, operator, reason, login_role, system_identifier, timeline_id, previous_hash, hash)
				VALUES ($1, $2, 8, 'revoke', 'o', 'r', 'x', 1, 1, '', '')`)},
			{"fencing_token_seq", "fencing_token_seq", time.Time{}, func(token lockstore.Token) { exec(t, w.lock, `SELECT setval('fencing_token_seq', $1)`, int64(token)) }},
			{"outside_mark", w.mark.Path(), time.Time{}, func(token lockstore.Token) {
				if _, err := w.mark.Reach(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			token := lockstore.Token(1_000_000 * (n + 1))
			tt.put(token)
			plan, err := restore.Prepare(t.Context(), s, opts)
			if err != nil {
				t.Fatal(err)
			}
			in := tt.source
			if in == "lock_revocation.prev_token" {
				in = "lock_grant.fencing_token"
			}
			if plan.Observed != token || plan.ObservedIn != in || plan.Target != token+restore.DefaultMargin || plan.Headroom != lockstore.MaxToken-plan.Target {
				t.Errorf("%s with %d: observed %d in %s, target %d, headroom %d", tt.source, token, plan.Observed, plan.ObservedIn, plan.Target, plan.Headroom)
			}
			if !slices.ContainsFunc(plan.Traffic.Connected, func(p owner.Process) bool {
				return p.PID == int32(other.PgConn().PID()) && p.Role == "t_lockapp"
			}) {
				t.Errorf("who is connected: %v", plan.Traffic.Connected)
			}
			want = append(want, lockstore.Evidence{Source: tt.source, Status: lockstore.EvidenceRead, Value: token, ValueStr: token.String(), Row: tt.row, At: lockstore.Time{Time: tt.at}})
			if n+1 < len(restore.Sources()) {
				continue
			}
			bySource := cmpopts.SortSlices(func(a, b lockstore.Evidence) int { return strings.Compare(a.Source, b.Source) })
			marked := slices.IndexFunc(plan.Evidence, func(e lockstore.Evidence) bool { return e.Source == "outside_mark" })
			if since := time.Since(plan.Evidence[marked].At.Time); since < 0 || since > time.Hour {
				t.Errorf("the mark was written at %s", plan.Evidence[marked].At)
			}
			plan.Evidence[marked].At = lockstore.Time{}
			if diff := cmp.Diff(want, plan.Evidence, bySource); diff != "" {
				t.Errorf("the evidence (-want +got):\n%s", diff)
			}
		}
		if len(want) != len(restore.Sources()) {
			t.Errorf("%d sources of %q were tried", len(want), restore.Sources())
		}
	})
}
