package rail_test

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
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
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

// patience is a forwarding deadline that no transaction misses, and that a test
// waits for.
const patience = 5 * time.Second

// bundle is a migrated paydb, and a rail whose calls are counted.
type bundle struct {
	dbs   pgtest.Databases
	super *pgx.Conn
	rail  *fakeRail
	seen  *events
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return bundle{dbs: dbs, super: dbs.Pay.Conn(t, "super"), rail: &fakeRail{}, seen: &events{}}
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

// proxy is a rail-proxy before the bundle's rail, logged in as the service is.
func (b bundle) proxy(t *testing.T, opts rail.Options) *rail.Proxy {
	t.Helper()
	return b.proxyThrough(t, b.dbs.Pay.Config(t, "t_rail"), opts)
}

func (b bundle) proxyThrough(t *testing.T, config *pgx.ConnConfig, opts rail.Options) *rail.Proxy {
	t.Helper()
	// Sixteen clients stand in one queue, and a test holds it up until it has looked.
	db, err := paystore.Open(t.Context(), paystore.Options{Config: config, Purpose: paystore.Changing, MaxConns: 20, LockTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	opts.Observe = b.seen.add
	p := rail.New(db, b.rail, opts)
	t.Cleanup(func() { p.Close(); db.Close() })
	return p
}

func (b bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// payout makes one of the account that stands before the rail, claimed by each of
// the tokens in turn.
func (b bundle) payout(t *testing.T, accountID string, tokens ...paystore.Token) string {
	t.Helper()
	id := b.claimed(t, accountID, tokens...)
	b.exec(t, `UPDATE payout SET state = 'RAIL_SUBMITTED' WHERE payout_id = $1`, id)
	return id
}

func (b bundle) claimed(t *testing.T, accountID string, tokens ...paystore.Token) string {
	t.Helper()
	id := uuid.NewString()
	b.exec(t, `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
		SELECT $1, account_id, 4711, currency, $3 FROM account WHERE account_id = $2`, id, accountID, "key-"+id)
	for _, token := range tokens {
		b.claim(t, id, token)
	}
	return id
}

// claim takes the payout over.
func (b bundle) claim(t *testing.T, id string, token paystore.Token) {
	t.Helper()
	b.exec(t, `UPDATE payout SET state = CASE state WHEN 'PENDING' THEN 'CLAIMED' ELSE state END, claimed_by = 'worker', claim_token = $2
		WHERE payout_id = $1`, id, int64(token))
}

// attempts are the payout's rows of rail_submission, as "token outcome reference".
func (b bundle) attempts(t *testing.T, id string) []string {
	t.Helper()
	lines, err := b.read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func (b bundle) read(ctx context.Context, id string) ([]string, error) {
	rows, err := b.super.Query(ctx, `SELECT presented_token || ' ' || coalesce(outcome, 'in flight') || coalesce(' ' || rail_reference, '')
		FROM rail_submission WHERE payout_id = $1 ORDER BY presented_token, submitted_at`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// mark is the rail's mark of the account, 0 for none.
func (b bundle) mark(t *testing.T, accountID string) paystore.Token {
	t.Helper()
	var highest paystore.Token
	err := b.super.QueryRow(t.Context(), `SELECT coalesce(max(highest_token), 0) FROM rail_high_water WHERE account_id = $1`, accountID).Scan(&highest)
	if err != nil {
		t.Fatal(err)
	}
	return highest
}

// fakeRail counts what it is asked; it acknowledges unless a test says otherwise.
type fakeRail struct {
	mu       sync.Mutex
	requests []rail.Request
	asked    []string
	submit   func(ctx context.Context, req rail.Request) (rail.Answer, error)
	status   func(ctx context.Context, key string) (rail.Answer, error)
}

func (f *fakeRail) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	f.mu.Lock()
	f.requests = append(f.requests, req)
	submit := f.submit
	f.mu.Unlock()
	if submit != nil {
		return submit(ctx, req)
	}
	return acked(req.Key), nil
}

func (f *fakeRail) Status(ctx context.Context, key string) (rail.Answer, error) {
	f.mu.Lock()
	f.asked = append(f.asked, key)
	status := f.status
	f.mu.Unlock()
	if status != nil {
		return status(ctx, key)
	}
	return rail.Answer{Outcome: rail.NotFound, Text: "no such payment"}, nil
}

func (f *fakeRail) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeRail) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fakeRail) answerStatus(answer rail.Answer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = func(context.Context, string) (rail.Answer, error) { return answer, err }
}

func acked(key string) rail.Answer {
	return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "ref-" + key[:8], Text: "booked"}
}

// events are what the proxy told its observer.
type events struct {
	mu   sync.Mutex
	told []rail.Event
}

func (e *events) add(_ context.Context, event rail.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, event)
}

// lines are the events as "name presented stored".
func (e *events) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for _, event := range e.told {
		lines = append(lines, fmt.Sprintf("%s %s %s", event.Name, event.Presented, event.Stored))
	}
	return lines
}

// becomes waits until the payout's attempts are these.
func (b bundle) becomes(t *testing.T, id, want string) {
	t.Helper()
	pgtest.Eventually(t, "the attempt becomes "+want, func(ctx context.Context) (bool, error) {
		lines, err := b.read(ctx, id)
		return len(lines) == 1 && lines[0] == want, err
	})
}
