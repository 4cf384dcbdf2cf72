package life_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// bench is what many runs of the machine share.
type bench struct {
	world
	stores
	seen map[string]int // counts what happened: what never happens proves nothing
}

// machine plays the payouts of its own accounts, one call at a time, against paydb
// and against what a reader of the contract would expect.
type machine struct {
	t     *testing.T
	b     bench
	store *posting.Store
	proxy *rail.Proxy
	hasty *rail.Proxy // does not wait for the rail
	fail  func(format string, args ...any)

	last         paystore.Token // as lockdb's sequence has it
	accounts     []*account
	payouts      []*payout
	clearing     map[string]paystore.Minor
	contradicted atomic.Int64
}

// Whatever the order of calls, of holders and of stale ones, paydb holds what the
// contract says, and each call is answered so.
//
// Clauses: K-4.1, K-4.2, K-4.3, K-4.7, K-4.9, K-4.10, K-4.11, K-5.1, K-5.2, K-5.3
// Mutation: those of TestLifeTurnsRed; no highest claim in standing.sql; drop the
// POSTED case of post, or one's own case of unmoved.
func TestLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	// Once more where luck has left something out; more than that is no luck.
	for run := 0; run == 0 || run < 3 && len(unseen(b.seen)) > 0; run++ {
		rapid.Check(t, func(r *rapid.T) {
			m := newMachine(t, b, r.Fatalf)
			r.Cleanup(m.close)
			m.walk(r)
			m.walk(r)
		})
	}
	if never := unseen(b.seen); len(never) > 0 {
		t.Errorf("it never happened: %q", never)
	}
	t.Logf("seen: %v", b.seen)
}

// unseen is what has to happen and has not.
func unseen(seen map[string]int) (never []string) {
	for _, what := range []string{
		"create: done", "create: stands", "create: rejected", "create: invalid", "claim: done", "claim: fenced by the payout", "claim: state FAILED",
		"take over: CLAIMED", "take over: RAIL_SUBMITTED", "take over: RAIL_ACKED", "release: done", "check funds: done", "check funds: fenced by the payout",
		"submit: done", "submit: fenced by the payout", "reject: done", "rail acks", "rail rejects", "rail is silent", "rail resets",
		"rail: its attempt stands", "rail submit: fenced by the rail", "rail submit: state RAIL_ACKED", "ask: gave it up", "late: heard", "settle: done", "settle: fenced by the payout",
		"post: done", "post: posted before", "post: fenced by the account", "resolve: done", "give up: done", "raise fence: done", "raise mark: done",
	} {
		if seen[what] == 0 {
			never = append(never, what)
		}
	}
	return never
}

func newBench(t *testing.T, through func(*pgx.ConnConfig) *pgx.ConnConfig) bench {
	t.Helper()
	w := newWorld(t, 16)
	return bench{world: w, stores: w.open(t, through), seen: map[string]int{}}
}

// newMachine has a new account in each of two currencies: what earlier runs left is
// nobody's business.
func newMachine(t *testing.T, b bench, fail func(string, ...any)) *machine {
	t.Helper()
	m := &machine{t: t, b: b, store: store(b.money), fail: fail, clearing: map[string]paystore.Minor{}}
	observe := func(_ context.Context, e rail.Event) {
		if e.Name == rail.EventContradicted {
			m.contradicted.Add(1)
		}
	}
	m.proxy = b.proxy(b.attempts, rail.Options{Observe: observe})
	m.hasty = b.proxy(b.attempts, rail.Options{Timeout: haste})
	for _, currency := range []string{"EUR", "USD"} {
		a := &account{id: uuid.NewString(), currency: currency, opening: 100, balance: 100}
		b.exec(t, `INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, $2, $3)`, a.id, a.currency, a.opening)
		b.exec(t, `INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason) VALUES ($1, $2, now(), 'test', 'test')`, a.id, a.opening)
		m.accounts = append(m.accounts, a)
		m.grant(a)
	}
	rows, err := b.super.Query(t.Context(), `SELECT account_id::text, balance_minor FROM account JOIN clearing_account USING (account_id)`)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var balance paystore.Minor
	if _, err := pgx.ForEachRow(rows, []any{&id, &balance}, func() error { m.clearing[id] = balance; return nil }); err != nil {
		t.Fatal(err)
	}
	return m
}

// close hears the rail out.
func (m *machine) close() {
	m.b.rail.answerAll()
	m.proxy.Close()
	m.hasty.Close()
}

func (m *machine) grant(a *account) grant {
	m.last++
	g := grant{fmt.Sprintf("w%d", m.last), m.last}
	a.grants = append(a.grants, g)
	return g
}

func (m *machine) saw(what string) { m.b.seen[what]++ }

// judge compares an answer with the one predicted.
func (m *machine) judge(verb, want string, err error) {
	if got := class(err); got != want {
		m.fail("%s: %s (%v), want %s", verb, got, err, want)
	}
	kind, _, _ := strings.Cut(want, ":")
	if strings.HasPrefix(kind, "claimed") {
		kind = "claimed"
	}
	m.saw(verb + ": " + kind)
}

func (m *machine) accountOf(id string) *account {
	for _, a := range m.accounts {
		if a.id == id {
			return a
		}
	}
	return nil
}

// ledger is an account in words. Drift is balance less opening, credits and debits,
// by paydb's own rows.
type ledger struct {
	Balance, Drift paystore.Minor
	Fence, Mark    paystore.Token
}

const ledgerQuery = `
SELECT a.account_id::text, a.balance_minor, a.fence, coalesce(h.highest_token, 0),
       (a.balance_minor - o.amount_minor - coalesce((
         SELECT sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END)
           FROM ledger_entry l WHERE l.account_id = a.account_id), 0))::bigint
  FROM account a JOIN opening_balance o USING (account_id) LEFT JOIN rail_high_water h USING (account_id)
 WHERE a.account_id = ANY($1::text[]::uuid[]) OR EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id)`

const payoutsQuery = `
SELECT p.payout_id::text, p.state, coalesce(p.claimed_by, ''), coalesce(p.claim_token, 0), p.attempt_count,
       ARRAY(SELECT c.claim_token || ' ' || c.claimed_by FROM payout_claim c WHERE c.payout_id = p.payout_id),
       ARRAY(SELECT s.presented_token || ' ' || coalesce(s.outcome, 'in flight') || coalesce(' ' || s.rail_reference, '')
               FROM rail_submission s WHERE s.payout_id = p.payout_id),
       ARRAY(SELECT l.direction || ' ' || l.amount_minor || ' under ' || l.fence || ' on ' || l.account_id
               FROM ledger_entry l WHERE l.payout_id = p.payout_id),
       ARRAY(SELECT r.source || ' ' || r.verdict FROM payout_resolution r WHERE r.payout_id = p.payout_id ORDER BY r.resolution_id)
  FROM payout p WHERE p.account_id = ANY($1::text[]::uuid[])`

// compare reads everything back.
func (m *machine) compare(*rapid.T) {
	var ids []string
	wantLedger, wantPayouts := map[string]ledger{}, map[string]shown{}
	for _, a := range m.accounts {
		ids = append(ids, a.id)
		wantLedger[a.id] = ledger{Balance: a.balance, Fence: a.fence, Mark: a.mark}
	}
	for id, balance := range m.clearing {
		wantLedger[id] = ledger{Balance: balance}
	}
	for _, p := range m.payouts {
		wantPayouts[p.id] = p.show()
	}
	gotLedger, gotPayouts, err := m.read(ids)
	if err != nil {
		m.fail("read everything: %v", err)
	}
	if diff := cmp.Diff(wantLedger, gotLedger); diff != "" {
		m.fail("accounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantPayouts, gotPayouts, cmpopts.EquateEmpty()); diff != "" {
		m.fail("payouts (-want +got):\n%s", diff)
	}
	if twice := m.b.rail.twice(); len(twice) > 0 {
		m.fail("the rail received more than one request for %v", twice)
	}
}

func (m *machine) read(ids []string) (map[string]ledger, map[string]shown, error) {
	accounts, payouts := map[string]ledger{}, map[string]shown{}
	rows, err := m.b.super.Query(m.t.Context(), ledgerQuery, ids)
	if err != nil {
		return nil, nil, err
	}
	var id string
	var l ledger
	if _, err := pgx.ForEachRow(rows, []any{&id, &l.Balance, &l.Fence, &l.Mark, &l.Drift}, func() error { accounts[id] = l; return nil }); err != nil {
		return nil, nil, err
	}
	rows, err = m.b.super.Query(m.t.Context(), payoutsQuery, ids)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s shown
		if err := rows.Scan(&id, &s.State, &s.By, &s.Claim, &s.Submits, &s.Claims, &s.Attempts, &s.Legs, &s.Resolutions); err != nil {
			return nil, nil, err
		}
		payouts[id] = s.sorted()
	}
	return accounts, payouts, rows.Err()
}
