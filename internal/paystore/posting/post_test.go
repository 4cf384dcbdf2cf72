package posting_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// A posting is the row's amount: off the payer, onto a clearing account of the
// currency, both legs under the claim's token, which is the account's fence then.
// Posted again, by anybody, it is success and changes nothing.
//
// Clauses: K-4.1, K-4.3, K-4.7, K-4.10
// Mutation: drop the POSTED case of post, or credit another amount.
func TestPost(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		for _, account := range []string{payer, dollars} {
			before := b.account(t, account)
			id := b.create(t, account, 4711)
			token := b.token()
			b.bring(t, id, paystore.RailAcked, token)
			posted, err := b.Post(t.Context(), id, token)
			if err != nil || posted.AlreadyPosted || posted.BalanceMinor == nil || *posted.BalanceMinor != before.BalanceMinor-4711 {
				t.Fatalf("%+v, %v", posted, err)
			}
			p := b.payout(t, id)
			want := []paystore.Leg{
				{EntryID: posted.DebitEntryID, PayoutID: id, AccountID: account, Direction: paystore.Debit, AmountMinor: 4711, Fence: token},
				{EntryID: posted.CreditEntryID, PayoutID: id, AccountID: posted.ClearingAccountID, Direction: paystore.Credit, AmountMinor: 4711, Fence: token},
			}
			for i := range p.Legs {
				p.Legs[i].CreatedAt = time.Time{}
			}
			if diff := cmp.Diff(want, p.Legs); diff != "" || p.State != paystore.Posted {
				t.Errorf("%s, legs (-want +got):\n%s", p.State, diff)
			}
			if a := b.account(t, account); a.Fence != token {
				t.Errorf("the fence is %s, not %s", a.Fence, token)
			}
			if c := b.account(t, posted.ClearingAccountID); !c.Clearing || c.Currency != before.Currency || c.Fence != 0 {
				t.Errorf("credited: %+v", c)
			}
			for _, by := range []paystore.Token{token, b.token(), 1} {
				again, err := b.Post(t.Context(), id, by)
				want := posted
				want.AlreadyPosted, want.BalanceMinor = true, nil
				if diff := cmp.Diff(want, again); diff != "" || err != nil {
					t.Errorf("posted again by %s: %v\n%s", by, err, diff)
				}
			}
		}
		b.balanced(t)
	})
}

// (a), DEBIT, (c), clearing balance, CREDIT, in this order, between BEGIN and COMMIT.
//
// Clauses: K-4.7
// Mutation: queue the CREDIT leg before the clearing account's balance.
func TestPostOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.at(t, payer, paystore.RailAcked, 7)
	seen := &statements{names: map[string]string{"begin isolation level read committed": "BEGIN", "commit": "COMMIT"}}
	for name, sql := range posting.Queries() {
		seen.names[sql] = name
	}
	config := b.dbs.Pay.Config(t, "t_resource")
	config.Tracer = seen
	store := posting.New(open(t, config, paystore.Options{}), posting.Options{})
	if _, err := store.Post(t.Context(), id, 7); err != nil {
		t.Fatal(err)
	}
	want := []string{"BEGIN", "lock_payout", "debit", "leg", "post", "credit", "leg", "COMMIT"}
	if diff := cmp.Diff(want, seen.seen); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}

// statements are those that were run, by name; the others are left out.
type statements struct {
	mu    sync.Mutex
	names map[string]string
	seen  []string
}

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, known := s.names[sql]; known {
		s.seen = append(s.seen, name)
	}
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.add(data.SQL)
}

func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// The clearing account is decided by the payout alone, and all shards are used; a
// currency without one posts nothing and says so.
//
// Clauses: K-4.7
// Mutation: take the first shard always, or a random one.
func TestShards(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	shard := func(id string) (account string) {
		t.Helper()
		var p paystore.Payout
		if err := paystore.ScanPayout(b.super.QueryRow(t.Context(), posting.Queries()["lock_payout"], id), &p, &account); err != nil {
			t.Fatal(err)
		}
		return account
	}
	used := map[string]int{}
	for range 64 {
		id := b.create(t, payer, 1)
		first := shard(id)
		if second := shard(id); second != first {
			t.Errorf("payout %s has the shards %s and %s", id, first, second)
		}
		used[first]++
	}
	if len(used) != 4 {
		t.Errorf("64 payouts used the shards %v, want all 4", used)
	}
	b.exec(t, `INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'CHF', 1000)`, nobody)
	id := b.at(t, nobody, paystore.RailAcked, 7)
	if _, err := b.Post(t.Context(), id, 7); !errors.Is(err, paystore.ErrNotClearable) || !strings.Contains(err.Error(), "CHF") {
		t.Errorf("in francs: %v", err)
	}
	if p := b.payout(t, id); p.State != paystore.RailAcked || len(p.Legs) > 0 {
		t.Errorf("in francs: %+v", p)
	}
}

// One grant posts one payout per account; the second needs a new token. On another
// account the same token posts.
//
// Clauses: K-4.2, K-4.3
// Mutation: write "<=" in (a): TestMutants.
func TestOneGrantOnePayout(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		first, second := b.ackedTogether(t, 7)
		if _, err := b.Post(ctx, first, 7); err != nil {
			t.Fatal(err)
		}
		_, err := b.Post(ctx, second, 7)
		fencedBy(t, "the second payout", err, paystore.ResourceAccount, 7, 7)
		elsewhere := b.at(t, other, paystore.RailAcked, 7)
		if _, err := b.Post(ctx, elsewhere, 7); err != nil {
			t.Errorf("on another account: %v", err)
		}
		if _, err := b.Claim(ctx, second, "holder", 8); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Post(ctx, second, 8); err != nil {
			t.Errorf("re-entered: %v", err)
		}
		b.balanced(t)
	})
}

// ackedTogether makes two acknowledged payouts of the payer's that one token holds,
// after others had asked the rail for them.
func (b bundle) ackedTogether(t *testing.T, token paystore.Token) (first, second string) {
	t.Helper()
	first, second = b.at(t, payer, paystore.RailAcked, token-2), b.at(t, payer, paystore.RailAcked, token-1)
	for _, id := range []string{first, second} {
		if _, err := b.Claim(t.Context(), id, "holder", token); err != nil {
			t.Fatal(err)
		}
	}
	return first, second
}

// 0 rows of (a) are named for what they are, the payout stays RAIL_ACKED without a
// leg, and the account as it was.
//
// Clauses: K-4.3, K-5.5
// Mutation: swap the cases of refused, or drop one of rejected.
func TestPostRefused(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		unchanged := func(id string) {
			t.Helper()
			if p := b.payout(t, id); p.State != paystore.RailAcked || len(p.Legs) > 0 {
				t.Errorf("%s with %d legs", p.State, len(p.Legs))
			}
			b.balanced(t)
		}
		fenced := b.at(t, payer, paystore.RailAcked, 7)
		if from, raised, err := b.RaiseFence(ctx, payer, 9, "erin", "revoked"); err != nil || !raised || from != 0 {
			t.Fatalf("raise: %s, %t, %v", from, raised, err)
		}
		_, err := b.Post(ctx, fenced, 7)
		fencedBy(t, "below the fence", err, paystore.ResourceAccount, 7, 9)
		unchanged(fenced)

		poor := b.create(t, other, 250_001)
		b.bring(t, poor, paystore.RailAcked, 10)
		_, err = b.Post(ctx, poor, 10)
		rejected, ok := errors.AsType[*paystore.RejectedError](err)
		if !ok || rejected.Reason != paystore.ReasonInsufficientFunds || rejected.BalanceMinor != 250_000 || rejected.AmountMinor != 250_001 {
			t.Errorf("poor: %v", err)
		}
		unchanged(poor)
		if p, err := b.Reject(ctx, poor, 10); err != nil || p.State != paystore.Failed || p.ClaimToken != 10 {
			t.Errorf("reject after the acknowledgement: %+v, %v", p, err)
		}
		if a := b.account(t, other); a.Fence != 0 {
			t.Errorf("a refused posting left the fence at %s", a.Fence)
		}

		// No guard lets it happen; a database without them is still told apart.
		id := b.at(t, dollars, paystore.RailAcked, 11)
		b.exec(t, `ALTER TABLE account DISABLE TRIGGER account_guard`)
		b.exec(t, `UPDATE account SET currency = 'GBP' WHERE account_id = $1`, dollars)
		_, err = b.Post(ctx, id, 11)
		rejected, ok = errors.AsType[*paystore.RejectedError](err)
		if !ok || rejected.Reason != paystore.ReasonCurrencyMismatch || rejected.AccountCurrency != "GBP" || rejected.Currency != "USD" {
			t.Errorf("another currency: %v", err)
		}

		for _, state := range paystore.States() {
			if state == paystore.RailAcked || state == paystore.Posted {
				continue
			}
			token := b.token() + 100
			b.last.Store(int64(token))
			id := b.at(t, payer, state, token)
			if _, err := b.Post(ctx, id, token); !is[*paystore.StateError](err) {
				t.Errorf("post of %s: %v", state, err)
			}
		}
		if _, err := b.Post(ctx, nobody, 7); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("post of nothing: %v", err)
		}
	})
}

// Funds that arrive between (a) and the diagnostic read are no rejection: the same
// token is tried again, and that is bounded.
//
// Clauses: K-4.3
// Mutation: let Post return the first 0 rows as a rejection, or try for ever.
func TestFundsArriveMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.at(t, payer, paystore.RailAcked, 7)
	// (a) finds no row, for a reason that is gone when it is looked for.
	b.exec(t, `CREATE SEQUENCE tried; GRANT ALL ON SEQUENCE tried TO PUBLIC;
		CREATE FUNCTION not_yet() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		  IF nextval('tried') < TG_ARGV[0]::int THEN RETURN NULL; END IF;
		  RETURN NEW;
		END $$`)
	b.exec(t, `CREATE TRIGGER a_not_yet BEFORE UPDATE ON account FOR EACH ROW WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION not_yet(1000)`)
	_, err := b.Post(t.Context(), id, 7)
	if err == nil || !strings.Contains(err.Error(), "the same token") || is[*paystore.RejectedError](err) || is[*paystore.FencedError](err) {
		t.Errorf("never: %v", err)
	}
	var tried int64
	if err := b.super.QueryRow(t.Context(), `SELECT last_value FROM tried`).Scan(&tried); err != nil || tried != 4 {
		t.Errorf("it was tried %d times, %v", tried, err)
	}
	b.exec(t, `ALTER SEQUENCE tried RESTART; DROP TRIGGER a_not_yet ON account;
		CREATE TRIGGER a_not_yet BEFORE UPDATE ON account FOR EACH ROW WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION not_yet(3)`)
	posted, err := b.Post(t.Context(), id, 7)
	if err != nil || posted.AlreadyPosted || posted.Token != 7 {
		t.Errorf("the third time: %+v, %v", posted, err)
	}
	b.balanced(t)
}

// A balance that would leave 64 bits is an error, and nothing is changed; the
// greatest amount there is can be posted.
//
// Clauses: K-5.4
// Mutation: drop the 22003 case of paystore's classify.
func TestPostOverflow(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.exec(t, `UPDATE account SET balance_minor = $2 WHERE account_id = $1`, payer, int64(math.MaxInt64))
	whole := b.create(t, payer, math.MaxInt64)
	b.bring(t, whole, paystore.RailAcked, 7)
	b.exec(t, `UPDATE account SET balance_minor = 1 WHERE account_id IN (SELECT account_id FROM clearing_account)`)
	if _, err := b.Post(t.Context(), whole, 7); !errors.Is(err, paystore.ErrOverflow) {
		t.Errorf("one too many: %v", err)
	}
	if p, a := b.payout(t, whole), b.account(t, payer); p.State != paystore.RailAcked || len(p.Legs) > 0 || a.BalanceMinor != math.MaxInt64 || a.Fence != 0 {
		t.Errorf("it left %s, %d legs, %+v", p.State, len(p.Legs), a)
	}
	b.exec(t, `UPDATE account SET balance_minor = 0 WHERE account_id IN (SELECT account_id FROM clearing_account)`)
	posted, err := b.Post(t.Context(), whole, 7)
	if err != nil || *posted.BalanceMinor != 0 || b.account(t, posted.ClearingAccountID).BalanceMinor != math.MaxInt64 {
		t.Errorf("all of it: %+v, %v", posted, err)
	}
}

// A posting does not hang behind another transaction, and names it.
//
// Clauses: K-2.11
// Mutation: leave lock_timeout out of pgtx's settings.
func TestPostBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for name, pooled := range map[string]bool{"direct": false, "pooled": true} {
		store := posting.New(open(t, b.dbs.Pay.Config(t, "t_resource"), paystore.Options{LockTimeout: 50 * time.Millisecond, Pooled: pooled}), posting.Options{})
		token := b.token()
		id := b.at(t, payer, paystore.RailAcked, token)
		blocker := b.dbs.Pay.Conn(t, "super")
		if _, err := blocker.Exec(t.Context(), `BEGIN; UPDATE account SET updated_at = now() WHERE account_id = '`+payer+`'`); err != nil {
			t.Fatal(err)
		}
		_, err := store.Post(t.Context(), id, token)
		blocked, ok := errors.AsType[*paystore.BlockedError](err)
		if !ok || !cmp.Equal(blocked.PIDs, []int32{int32(blocker.PgConn().PID())}) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Post(t.Context(), id, token); err != nil {
			t.Errorf("%s, free again: %v", name, err)
		}
	}
}

// Another holder who finishes the work between 0 rows and the diagnostic read has
// posted it: success, not a fence.
//
// Clauses: K-4.3
// Mutation: drop the POSTED case of refused.
func TestPostedMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	first, second := b.ackedTogether(t, 7)
	if _, err := b.Post(t.Context(), first, 7); err != nil {
		t.Fatal(err)
	}
	config := b.dbs.Pay.Config(t, "t_resource")
	config.Tracer = &before{sql: posting.Queries()["standing"], do: func() {
		_, claimErr := b.Claim(t.Context(), second, "heir", 8)
		_, postErr := b.Post(t.Context(), second, 8)
		if err := errors.Join(claimErr, postErr); err != nil {
			t.Error(err)
		}
	}}
	store := posting.New(open(t, config, paystore.Options{}), posting.Options{})
	posted, err := store.Post(t.Context(), second, 7)
	if err != nil || !posted.AlreadyPosted || posted.Token != 8 {
		t.Errorf("%+v, %v, want the heir's posting", posted, err)
	}
}

// before does something once, before a statement is run.
type before struct {
	statements

	sql  string
	once sync.Once
	do   func()
}

func (h *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL == h.sql {
		h.once.Do(h.do)
	}
	return ctx
}
