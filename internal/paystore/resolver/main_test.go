package resolver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// The seeded accounts that the tests pay from.
const (
	account = "00000000-0000-4000-8000-000000000001"
	another = "00000000-0000-4000-8000-000000000002"
)

const (
	// soon is a forwarding deadline that is waited for.
	soon = 100 * time.Millisecond
	// patience is one that no transaction misses.
	patience = 10 * time.Second
)

// world is a migrated paydb with both stores on it, and a rail that keeps a record.
type world struct {
	dbs     pgtest.Databases
	super   *pgx.Conn
	db      *paystore.DB
	posting *posting.Store
	proxy   *rail.Proxy
	rail    *recordingRail
	last    paystore.Token
}

func setup(t *testing.T, major int) *world {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	w := &world{dbs: dbs, super: dbs.Pay.Conn(t, "super"), rail: &recordingRail{record: map[string]rail.Answer{}}}
	w.db = open(t, dbs.Pay.Config(t, "t_resource"))
	w.posting = posting.New(w.db, posting.Options{})
	w.proxy = rail.New(open(t, dbs.Pay.Config(t, "t_rail")), w.rail, rail.Options{Timeout: patience})
	t.Cleanup(w.proxy.Close)
	return w
}

func open(t *testing.T, config *pgx.ConnConfig) *paystore.DB {
	t.Helper()
	db, err := paystore.Open(t.Context(), paystore.Options{Config: config, Purpose: paystore.Changing, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// eachMajor runs test on every PostgreSQL version supported.
func eachMajor(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, major))
		})
	}
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// token issues the next one, as lockdb's sequence does.
func (w *world) token() paystore.Token {
	w.last++
	return w.last
}

// create makes a payout of 100 of the account, under its own key.
func (w *world) create(t *testing.T, accountID string) string {
	t.Helper()
	a, err := w.db.Account(t.Context(), accountID)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := w.posting.Create(t.Context(), posting.CreateParams{AccountID: accountID, AmountMinor: 100, Currency: a.Currency, IdempotencyKey: uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	return p.PayoutID
}

// at makes a payout that stands in the state, with an attempt of an hour ago where
// there is one: "none", "" for in flight, or its outcome.
func (w *world) at(t *testing.T, state paystore.State, attempt string) string {
	t.Helper()
	id := w.create(t, account)
	if state == paystore.Pending {
		return id
	}
	token := w.token()
	w.exec(t, `UPDATE payout SET state = 'CLAIMED', claimed_by = 'worker-7', claim_token = $2 WHERE payout_id = $1`, id, int64(token))
	if state == paystore.Claimed {
		return id
	}
	w.exec(t, `UPDATE payout SET state = 'RAIL_SUBMITTED' WHERE payout_id = $1`, id)
	if attempt != "none" {
		w.exec(t, `INSERT INTO rail_high_water AS h (account_id, highest_token) VALUES ($1, $2)
			ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token`, account, int64(token))
		w.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, submitted_at)
			SELECT gen_random_uuid(), payout_id, idempotency_key, claim_token, now() - interval '1 hour' FROM payout WHERE payout_id = $1`, id)
	}
	if attempt != "none" && attempt != "" {
		w.exec(t, `UPDATE rail_submission SET outcome = $2, rail_reference = 'ref', resolved_at = now() WHERE payout_id = $1`, id, attempt)
	}
	switch {
	case state == paystore.RailAmbiguous && attempt == "none":
		// From before V20, which allows none.
		w.exec(t, `ALTER TABLE payout DISABLE TRIGGER payout_rail_guard`)
		w.exec(t, `UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = $1`, id)
		w.exec(t, `ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_rail_guard`)
	case state != paystore.RailSubmitted:
		w.exec(t, `UPDATE payout SET state = $2 WHERE payout_id = $1`, id, string(state))
	}
	return id
}

// restored makes paydb one whose gate was opened elsewhere (K-7.9).
func (w *world) restored(t *testing.T) {
	t.Helper()
	w.exec(t, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`)
	w.exec(t, `UPDATE pay_gate SET timeline_id = timeline_id + 1`)
	w.exec(t, `ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
}

func (w *world) resolver() *resolver.Resolver {
	return resolver.New(w.db, w.posting, w.proxy, resolver.Options{Deadline: soon, Operator: "erin", Reason: "ticket 812"})
}

func (w *world) payout(t *testing.T, id string) paystore.PayoutDetail {
	t.Helper()
	p, err := w.db.Payout(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// knows writes an answer into the rail's record of the payout.
func (w *world) knows(t *testing.T, id string, said rail.Answer) {
	t.Helper()
	w.rail.mu.Lock()
	defer w.rail.mu.Unlock()
	w.rail.record[w.payout(t, id).IdempotencyKey] = said
}

func acked() rail.Answer { return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "R-981"} }

// recordingRail pays whatever it is asked to, as often as it is asked, and counts: one
// that told duplicates apart would hide the fault.
type recordingRail struct {
	mu       sync.Mutex
	record   map[string]rail.Answer
	requests int
	asked    int
	down     error
}

func (f *recordingRail) Submit(_ context.Context, req rail.Request) (rail.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	said := rail.Answer{Outcome: paystore.OutcomeAcked, Reference: fmt.Sprintf("R-%d", f.requests)}
	f.record[req.Key] = said
	return said, nil
}

func (f *recordingRail) Status(_ context.Context, key string) (rail.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.down != nil {
		return rail.Answer{}, f.down
	}
	if said, known := f.record[key]; known {
		return said, nil
	}
	return rail.Answer{Outcome: rail.NotFound}, nil
}

func (f *recordingRail) payments() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// lateRail does not know a payment when it is asked first: it arrives then.
type lateRail struct {
	*recordingRail

	key string
}

func (f *lateRail) Status(ctx context.Context, key string) (rail.Answer, error) {
	said, err := f.recordingRail.Status(ctx, key)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record[f.key] = acked()
	return said, err
}
