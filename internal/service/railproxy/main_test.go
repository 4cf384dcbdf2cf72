package railproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	// The client's idle connections are the test's, not the service's.
	leaktest.Exit(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// The seeded accounts that the tests pay from.
const (
	account = "00000000-0000-4000-8000-000000000001"
	another = "00000000-0000-4000-8000-000000000002"
	nobody  = "00000000-0000-4000-8000-00000000dead"
)

// The forwarding deadlines: patience is one that nothing misses on a loaded machine,
// hasty is one that a test waits for, of a rail that does not answer.
const (
	patience = 30 * time.Second
	hasty    = 3 * time.Second
)

// bundle is a running rail-proxy on a migrated paydb, before a running rail simulator.
type bundle struct {
	*httpdtest.Service

	service *railproxy.Service
	sim     *httpdtest.Service
	dbs     pgtest.Databases
	super   *pgxpool.Pool
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	return setupWith(t, major, railproxy.Options{})
}

func setupWith(t *testing.T, major int, opts railproxy.Options) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return serve(t, dbs, simulate(t), dbs.Pay.Config(t, "t_rail"), opts)
}

// simulate starts a rail that acknowledges.
func simulate(t *testing.T) *httpdtest.Service {
	t.Helper()
	sim, err := railsim.Open(railsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return httpdtest.Start(t, httpd.Options{Name: "rail-sim", Ready: sim.Ready}, sim.Register)
}

// serve starts the service on a login.
func serve(t *testing.T, dbs pgtest.Databases, sim *httpdtest.Service, login *pgx.ConnConfig, opts railproxy.Options) bundle {
	t.Helper()
	log := &httpdtest.Log{}
	client, err := httprail.New(sim.URL, httprail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts.Database.Config, opts.Database.MaxConns = login, 8
	if opts.Rail == nil {
		opts.Rail = client
	}
	if opts.Deadline == 0 {
		opts.Deadline = patience
	}
	opts.Log, opts.Metrics = slog.New(slog.NewTextHandler(log, nil)), telemetry.NewMetrics("rail-proxy")
	service, err := railproxy.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	s := httpdtest.Start(t, httpd.Options{Name: "rail-proxy", Ready: service.Ready, Log: opts.Log, Metrics: opts.Metrics}, service.Register)
	s.Log = log
	return bundle{s, service, sim, dbs, dbs.Pay.Pool(t, "super")}
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

// payout makes one of the account that stands before the rail, claimed by each of the
// tokens in turn.
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
		WHERE payout_id = $1`, id, token)
}

// attempts are the payout's rows of rail_submission, as "token outcome".
func (b bundle) attempts(ctx context.Context, id string) ([]string, error) {
	rows, err := b.super.Query(ctx, `SELECT presented_token || ' ' || coalesce(outcome, 'in flight')
		FROM rail_submission WHERE payout_id = $1 ORDER BY presented_token, submitted_at`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (b bundle) wantAttempts(t *testing.T, id string, want ...string) {
	t.Helper()
	got, err := b.attempts(t.Context(), id)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("attempts of %s: %v, %v; want %v", id, got, err, want)
	}
}

// send calls an operation; a token of 0 sends none.
func (b bundle) send(ctx context.Context, method, path string, token paystore.Token, body string) (httpdtest.Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.URL+path, strings.NewReader(body))
	if err != nil {
		return httpdtest.Answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != 0 {
		request.Header.Set(payapi.TokenHeader, token.String())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return httpdtest.Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return httpdtest.Answer{Status: response.StatusCode, Header: response.Header, Body: text}, err
}

func (b bundle) post(t *testing.T, path string, token paystore.Token, body any) httpdtest.Answer {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.send(t.Context(), http.MethodPost, path, token, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (b bundle) get(t *testing.T, path string) httpdtest.Answer {
	t.Helper()
	return b.Do(t, http.MethodGet, path, "", "")
}

func (b bundle) mood(t *testing.T, mood string) {
	t.Helper()
	if a := b.sim.Do(t, http.MethodPut, railsim.PathSimMood, "", mood); a.Status != http.StatusOK {
		t.Fatalf("put it into the mood %s: %d %s", mood, a.Status, a.Body)
	}
}

// reached is what the rail counted of a payout, as "requests paid".
func (b bundle) reached(t *testing.T, id string) string {
	t.Helper()
	var list railsim.PaymentList
	a := b.sim.Do(t, http.MethodGet, railsim.PathSimPayments+"?idempotency_key=key-"+id, "", "")
	if err := json.Unmarshal(a.Body, &list); err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	if len(list.Payments) == 0 {
		return "0 0"
	}
	return fmt.Sprintf("%d %d", list.Payments[0].Requests, list.Payments[0].Paid)
}

func ref(id string) payapi.PayoutRef { return payapi.PayoutRef{PayoutID: id} }

// want reads an answer of success.
func want[T any](t *testing.T, what string, a httpdtest.Answer) (body T) {
	t.Helper()
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", what, a.Status, a.Body, err)
	}
	return body
}

// refusal is a problem's error, for who wants to look at it.
type refusal struct{ err error }

// refused wants a problem of the status and code.
func refused(t *testing.T, what string, a httpdtest.Answer, status int, code string) refusal {
	t.Helper()
	p := a.Problem()
	if a.Status != status || p.Code != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.Status, a.Body, status, code)
	}
	return refusal{payapi.Error(p)}
}

// fenced wants 409 with both tokens.
func fenced(t *testing.T, what string, a httpdtest.Answer, resource paystore.Resource, presented, stored paystore.Token) {
	t.Helper()
	err := refused(t, what, a, http.StatusConflict, "fenced").err
	e, ok := errors.AsType[*paystore.FencedError](err)
	if !ok || e.Resource != resource || e.Presented != presented || e.Stored != stored || e.AccountID == "" {
		t.Errorf("%s: %v (%+v), want fenced out by the %s: %s below %s", what, err, e, resource, presented, stored)
	}
}

// metric is a counter's or a gauge's value, 0 for none.
func (b bundle) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := b.Metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// scopes are the operations with the scopes that let in, a line each.
func (b bundle) scopes() string {
	var lines []string
	for path, item := range b.Server.API().OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op != nil {
				lines = append(lines, fmt.Sprintf("%-4s %s %v", op.Method, path, httpd.ScopesOf(op)))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
