package posting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// The seeded accounts that the tests pay from: 10,000.00 and 2,500.00 EUR, and
// 10,000.00 USD.
const (
	payer    = "00000000-0000-4000-8000-000000000001"
	other    = "00000000-0000-4000-8000-000000000002"
	dollars  = "00000000-0000-4000-8000-000000000009"
	clearing = "00000000-0000-4000-9000-000000000000"
	nobody   = "00000000-0000-4000-8000-00000000dead"
)

// bundle is a migrated paydb and a store on it, logged in as the service is.
type bundle struct {
	*posting.Store

	db    *paystore.DB
	dbs   pgtest.Databases
	super *pgxpool.Pool
	last  *atomic.Int64 // the last token issued
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	db := open(t, dbs.Pay.Config(t, "t_resource"), paystore.Options{})
	return bundle{Store: posting.New(db, posting.Options{}), db: db, dbs: dbs, super: dbs.Pay.Pool(t, "super"), last: &atomic.Int64{}}
}

func open(t *testing.T, config *pgx.ConnConfig, opts paystore.Options) *paystore.DB {
	t.Helper()
	opts.Config, opts.Purpose = config, paystore.Changing
	if opts.MaxConns == 0 {
		opts.MaxConns = 20
	}
	if opts.LockTimeout == 0 {
		opts.LockTimeout = time.Minute // many clients stand in one queue
	}
	db, err := paystore.Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(db.Close)
	return db
}

// eachMajor runs test on every PostgreSQL version supported.
func eachMajor(t *testing.T, test func(t *testing.T, b bundle)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, major))
		})
	}
}

func (b bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// token issues the next one, as lockdb's sequence does.
func (b bundle) token() paystore.Token { return paystore.Token(b.last.Add(1)) }

func (b bundle) create(t *testing.T, account string, amount paystore.Minor) string {
	t.Helper()
	p, created, err := b.Create(t.Context(), params(b.account(t, account), amount))
	if err != nil || !created {
		t.Fatalf("create: %t, %v", created, err)
	}
	return p.PayoutID
}

func params(a paystore.Account, amount paystore.Minor) posting.CreateParams {
	return posting.CreateParams{AccountID: a.AccountID, AmountMinor: amount, Currency: a.Currency, IdempotencyKey: uuid.NewString()}
}

func (b bundle) account(t *testing.T, id string) paystore.Account {
	t.Helper()
	a, err := b.db.Account(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (b bundle) payout(t *testing.T, id string) paystore.PayoutDetail {
	t.Helper()
	p, err := b.db.Payout(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// at makes a payout of 100 that stands in the state, under token unless that is 0:
// the way there is the store's own.
func (b bundle) at(t *testing.T, account string, state paystore.State, token paystore.Token) string {
	t.Helper()
	id := b.create(t, account, 100)
	b.bring(t, id, state, token)
	return id
}

func (b bundle) bring(t *testing.T, id string, state paystore.State, token paystore.Token) {
	t.Helper()
	ctx := t.Context()
	do := func(_ paystore.Payout, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("bring it to %s: %v", state, err)
		}
	}
	if state == paystore.Pending {
		return
	}
	do(b.Claim(ctx, id, "holder", token))
	if state == paystore.Claimed {
		return
	}
	if state == paystore.Failed {
		do(b.Reject(ctx, id, token))
		return
	}
	do(b.Submit(ctx, id, token))
	if state == paystore.RailSubmitted {
		return
	}
	outcome := paystore.OutcomeAcked
	if state == paystore.RailAmbiguous || state == paystore.Abandoned {
		outcome = paystore.OutcomeTimeout
	}
	b.attempt(t, id, token, outcome)
	do(b.Settle(ctx, id, token))
	if state == paystore.Posted {
		_, err := b.Post(ctx, id, token)
		do(paystore.Payout{}, err)
	}
	if state == paystore.Abandoned {
		do(b.Resolve(ctx, resolution(id, token, paystore.VerdictUndetermined)))
	}
}

func resolution(id string, token paystore.Token, verdict paystore.Verdict) posting.ResolveParams {
	return posting.ResolveParams{
		PayoutID: id, Token: token, Source: paystore.SourceOperator, Verdict: verdict,
		Evidence: json.RawMessage(`{"ticket": 4711}`), Operator: "erin", Reason: "asked the bank",
	}
}

// attempt does what rail-proxy does: mark and attempt, and later the outcome.
func (b bundle) attempt(t *testing.T, id string, token paystore.Token, outcome paystore.Outcome) {
	t.Helper()
	attempted, err := b.tryAttempt(t.Context(), id, token, outcome)
	if err != nil || !attempted {
		t.Fatalf("attempt payout %s under %s: %t, %v", id, token, attempted, err)
	}
}

// tryAttempt is false when the mark refused the token, or the slot is taken.
func (b bundle) tryAttempt(ctx context.Context, id string, token paystore.Token, outcome paystore.Outcome) (attempted bool, err error) {
	err = pgx.BeginFunc(ctx, b.super, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO rail_high_water AS h (account_id, highest_token) SELECT account_id, $2 FROM payout WHERE payout_id = $1
			ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token WHERE h.highest_token < EXCLUDED.highest_token`, id, token)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		tag, err = tx.Exec(ctx, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token)
			SELECT gen_random_uuid(), payout_id, idempotency_key, $2 FROM payout WHERE payout_id = $1
			ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING`, id, token)
		attempted = err == nil && tag.RowsAffected() == 1
		return err
	})
	if err != nil || !attempted || outcome == "" {
		return attempted, err
	}
	_, err = b.super.Exec(ctx, `UPDATE rail_submission SET outcome = $2, rail_reference = CASE $2 WHEN 'ACKED' THEN 'r-' || payout_id END, resolved_at = now()
		WHERE payout_id = $1 AND outcome IS NULL`, id, outcome)
	return attempted, err
}

// balanced is INV-03 and K-4.7 over everything: each balance is opening + credits -
// debits, and each payout is POSTED with one DEBIT and one CREDIT of its amount under
// its claim, or has no leg.
func (b bundle) balanced(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"an account's balance": `
			SELECT a.account_id::text FROM account a LEFT JOIN opening_balance o USING (account_id)
			 WHERE a.balance_minor <> coalesce(o.amount_minor, 0)
			       + coalesce((SELECT sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END) FROM ledger_entry l WHERE l.account_id = a.account_id), 0)`,
		"a payout's legs": `
			SELECT p.payout_id::text FROM payout p
			 WHERE (p.state = 'POSTED') <> (
			         1 = (SELECT count(*) FROM ledger_entry l WHERE l.payout_id = p.payout_id AND l.direction = 'DEBIT' AND l.account_id = p.account_id AND l.amount_minor = p.amount_minor AND l.fence = p.claim_token)
			     AND 1 = (SELECT count(*) FROM ledger_entry l JOIN clearing_account c USING (account_id)
			               WHERE l.payout_id = p.payout_id AND l.direction = 'CREDIT' AND c.currency = p.currency AND l.amount_minor = p.amount_minor AND l.fence = p.claim_token))
			    OR (SELECT count(*) FROM ledger_entry l WHERE l.payout_id = p.payout_id) <> CASE p.state WHEN 'POSTED' THEN 2 ELSE 0 END`,
		"an account's fence": `
			SELECT a.account_id::text FROM account a
			 WHERE a.fence < (SELECT max(l.fence) FROM ledger_entry l WHERE l.account_id = a.account_id AND l.direction = 'DEBIT')`,
	} {
		rows, err := b.super.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(wrong) > 0 {
			t.Errorf("%s does not add up: %v", what, wrong)
		}
	}
}

// fencedBy fails the test unless err is a FencedError of the resource.
func fencedBy(t *testing.T, what string, err error, resource paystore.Resource, presented, stored paystore.Token) {
	t.Helper()
	fenced, ok := errors.AsType[*paystore.FencedError](err)
	if !ok || fenced.Resource != resource || fenced.Presented != presented || fenced.Stored != stored || fenced.AccountID == "" {
		t.Errorf("%s: %v (%+v), want fenced out by the %s: %s below %s", what, err, fenced, resource, presented, stored)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// hasGuard tells that a guard of paydb refused: the payout had moved on.
func hasGuard(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == pgerrcode.CheckViolation
}
