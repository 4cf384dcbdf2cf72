package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/executor"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The forwarding deadlines of rail-proxy. A request that the rail reads later is
// rejected: where it answers, nobody waits for the patient one to pass. What a rail in a
// silent mood does not answer takes the whole of the hasty one.
const (
	patient = 30 * time.Second
	hasty   = 3 * time.Second
)

// world is both databases, the payment services as they run, and a rail.
type world struct {
	locks    lockstore.Store
	payments *client.Payments
	rail     *client.Rail
	sim      *httpdtest.Service
	pay      *pgxpool.Pool
	// payURL and railURL are where the services listen.
	payURL, railURL string
}

func newWorld(t *testing.T, deadline time.Duration) *world {
	t.Helper()
	dbs := pgtest.Migrated(t, 16)
	locks, err := postgres.Open(t.Context(), postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting, MaxConns: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locks.Close)
	w := &world{locks: locks, pay: dbs.Pay.Pool(t, "super")}

	sim, err := railsim.Open(railsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.sim = httpdtest.Start(t, httpd.Options{Name: "rail-sim"}, sim.Register)

	log := slog.New(slog.NewTextHandler(&httpdtest.Log{}, nil))
	resource, err := payresource.New(t.Context(), payresource.Options{
		Database: paystore.Options{Config: dbs.Pay.Config(t, "t_resource"), MaxConns: 20}, RailDeadline: deadline, Log: log, Metrics: telemetry.NewMetrics("payment-resource"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(resource.Close)
	served := httpdtest.Start(t, httpd.Options{Name: "payment-resource"}, resource.Register)

	to, err := httprail.New(w.sim.URL, httprail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := railproxy.New(t.Context(), railproxy.Options{
		Database: paystore.Options{Config: dbs.Pay.Config(t, "t_rail"), MaxConns: 20}, Rail: to, Deadline: deadline, Log: log, Metrics: telemetry.NewMetrics("rail-proxy"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	door := httpdtest.Start(t, httpd.Options{Name: "rail-proxy"}, proxy.Register)

	w.payURL, w.railURL = served.URL, door.URL
	if w.payments, err = client.NewPayments(client.Options{URL: w.payURL}); err != nil {
		t.Fatal(err)
	}
	if w.rail, err = client.NewRail(client.Options{URL: w.railURL}); err != nil {
		t.Fatal(err)
	}
	return w
}

// account is the n-th of the seeded ones: 1 has 10,000.00 EUR, 6 nothing.
func account(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (w *world) create(t *testing.T, accountID string, amount int64) payapi.Payout {
	t.Helper()
	p, created, err := w.payments.Create(t.Context(), payapi.CreatePayout{AccountID: accountID, AmountMinor: &amount, Currency: "EUR", IdempotencyKey: uuid.NewString()})
	if err != nil || !created {
		t.Fatalf("create: %t, %v", created, err)
	}
	return p
}

func (w *world) mood(t *testing.T, mood string) {
	t.Helper()
	if a := w.sim.Do(t, "PUT", railsim.PathSimMood, "", mood); a.Status != 200 {
		t.Fatalf("put the rail into the mood %s: %d %s", mood, a.Status, a.Body)
	}
}

// running is an executor that runs.
type running struct {
	*executor.Executor

	metrics *telemetry.Metrics
	log     *httpdtest.Log
	stop    context.CancelFunc
	done    chan struct{}
}

// losable is a lease that a test has lost: that shows at its next renewal, after a third
// of it.
const losable = 6 * time.Second

// start runs an executor on the world until the test ends. Its lease is one that a
// machine which stands still for a while does not lose.
func (w *world) start(t *testing.T, name string, change func(*executor.Options)) *running {
	t.Helper()
	r := &running{metrics: telemetry.NewMetrics("payout-executor"), log: &httpdtest.Log{}, done: make(chan struct{})}
	opts := executor.Options{
		Locks: w.locks, Payments: w.payments, Rail: w.rail, Owner: name, TTL: 30 * time.Second, Workers: 4, Idle: 50 * time.Millisecond, Drain: time.Minute,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: r.metrics,
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if r.Executor, err = executor.New(opts); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	var failed error
	go func() {
		defer close(r.done)
		failed = r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-r.done
		if failed != nil {
			t.Errorf("run: %v", failed)
		}
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// count is how many payouts the executor counts with an outcome.
func (r *running) count(t *testing.T, outcome string) int {
	t.Helper()
	families, err := r.metrics.Gatherer().(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "dlockctl_executor_payouts_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == outcome {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// states counts the payouts in each state.
func (w *world) states(ctx context.Context) (string, error) {
	var text string
	err := w.pay.QueryRow(ctx, `SELECT coalesce(string_agg(state || ' ' || n, ', ' ORDER BY state), '') FROM (SELECT state, count(*) n FROM payout GROUP BY state) s`).Scan(&text)
	return text, err
}

// until waits for the payouts to be in these states.
func (w *world) until(t *testing.T, want string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("states: %s", last)
		}
	}()
	pgtest.Eventually(t, "payouts are "+want, func(ctx context.Context) (bool, error) {
		var err error
		last, err = w.states(ctx)
		return last == want, err
	})
}

// once wants what the rail paid, and what the ledger has, to be each POSTED payout
// once, every posting of an account under a token of its own (K-4.2).
func (w *world) once(t *testing.T) {
	t.Helper()
	var wrong []string
	rows, err := w.pay.Query(t.Context(), `SELECT p.idempotency_key, p.state, count(e.*) FROM payout p LEFT JOIN ledger_entry e USING (payout_id) GROUP BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	payments := w.railPayments(t)
	for rows.Next() {
		var key, state string
		var legs int
		if err := rows.Scan(&key, &state, &legs); err != nil {
			t.Fatal(err)
		}
		paid, want := payments[key].Paid, 0
		if state == string(paystore.Posted) {
			want = 1
		}
		if paid != want || legs != 2*want || payments[key].Requests > 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %s, paid %d times in %d requests, %d legs", key, state, paid, payments[key].Requests, legs))
		}
	}
	if err := rows.Err(); err != nil || len(wrong) > 0 {
		t.Errorf("%v; not once: %s", err, strings.Join(wrong, "; "))
	}
	var shared int
	err = w.pay.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM ledger_entry WHERE direction = 'DEBIT' GROUP BY account_id, fence HAVING count(*) > 1) s`).Scan(&shared)
	if err != nil || shared > 0 {
		t.Errorf("%d tokens posted twice on an account, %v", shared, err)
	}
}

// railPayments is what the rail counts, by key.
func (w *world) railPayments(t *testing.T) map[string]railsim.Payment {
	t.Helper()
	return paymentsOf(t, w.sim)
}

// hooked are the payment services with something in between.
type hooked struct {
	executor.Payments

	mu    sync.Mutex
	calls map[string][]paystore.Token
	// after, when set, is called after a call has been answered, and may lose the
	// answer; before may come in between.
	before, after func(verb string) error
}

func hook(p executor.Payments) *hooked {
	return &hooked{Payments: p, calls: map[string][]paystore.Token{}}
}

func (h *hooked) call(verb string, token paystore.Token, do func() error) error {
	h.mu.Lock()
	h.calls[verb] = append(h.calls[verb], token)
	h.mu.Unlock()
	if h.before != nil {
		if err := h.before(verb); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if h.after != nil {
		return h.after(verb)
	}
	return nil
}

// tokens are those that a verb was called with.
func (h *hooked) tokens(verb string) []paystore.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[verb])
}

func (h *hooked) Submit(ctx context.Context, id string, token paystore.Token) (p payapi.Payout, err error) {
	err = h.call("submit", token, func() (err error) { p, err = h.Payments.Submit(ctx, id, token); return err })
	return p, err
}

func (h *hooked) Post(ctx context.Context, id string, token paystore.Token) (p payapi.Posting, err error) {
	err = h.call("post", token, func() (err error) { p, err = h.Payments.Post(ctx, id, token); return err })
	return p, err
}
