package payresource_test

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
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	// The client's idle connections are the test's, not the service's.
	leaktest.Exit(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// The seeded accounts that the tests pay from: 10,000.00 EUR, another payer's, and
// 10,000.00 USD.
const (
	payer    = "00000000-0000-4000-8000-000000000001"
	other    = "00000000-0000-4000-8000-000000000002"
	dollars  = "00000000-0000-4000-8000-000000000009"
	clearing = "00000000-0000-4000-9000-000000000000"
	nobody   = "00000000-0000-4000-8000-00000000dead"
)

// bundle is a running payment-resource on a migrated paydb.
type bundle struct {
	*httpdtest.Service

	dbs   pgtest.Databases
	super *pgxpool.Pool
	last  *atomic.Int64 // the last token issued
}

func setup(t *testing.T, major int) bundle {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return serve(t, dbs, dbs.Pay.Config(t, "t_resource"), payresource.Options{})
}

// serve starts the service on a login.
func serve(t *testing.T, dbs pgtest.Databases, login *pgx.ConnConfig, opts payresource.Options) bundle {
	t.Helper()
	log := &httpdtest.Log{}
	opts.Database.Config, opts.Database.MaxConns = login, 8
	opts.RailDeadline = 10 * time.Second
	opts.Log, opts.Metrics = slog.New(slog.NewTextHandler(log, nil)), telemetry.NewMetrics("payment-resource")
	service, err := payresource.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	s := httpdtest.Start(t, httpd.Options{Name: "payment-resource", Ready: service.Ready, Log: opts.Log, Metrics: opts.Metrics}, service.Register)
	s.Log = log
	return bundle{s, dbs, dbs.Pay.Pool(t, "super"), &atomic.Int64{}}
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

// send calls an operation; a token of 0 sends none.
func (b bundle) send(t *testing.T, method, path string, token paystore.Token, body string) httpdtest.Answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != 0 {
		request.Header.Set(payapi.TokenHeader, token.String())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return httpdtest.Answer{Status: response.StatusCode, Header: response.Header, Body: text}
}

func (b bundle) post(t *testing.T, path string, token paystore.Token, body any) httpdtest.Answer {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return b.send(t, http.MethodPost, path, token, string(text))
}

func (b bundle) get(t *testing.T, path string) httpdtest.Answer {
	t.Helper()
	return b.send(t, http.MethodGet, path, 0, "")
}

// want reads an answer of success.
func want[T any](t *testing.T, what string, a httpdtest.Answer, status int) (body T) {
	t.Helper()
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != status {
		t.Fatalf("%s: %d %s, %v; want %d", what, a.Status, a.Body, err, status)
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

func (b bundle) create(t *testing.T, account, currency string, amount int64) payapi.Payout {
	t.Helper()
	return want[payapi.Payout](t, "create", b.post(t, payapi.PathPayouts, 0, payapi.CreatePayout{
		AccountID: account, AmountMinor: &amount, Currency: currency, IdempotencyKey: uuid.NewString(),
	}), http.StatusCreated)
}

func ref(id string) payapi.PayoutRef { return payapi.PayoutRef{PayoutID: id} }

// at makes a payout of 100 EUR that stands in the state, by the service's own way.
func (b bundle) at(t *testing.T, account string, state paystore.State, token paystore.Token) string {
	t.Helper()
	id := b.create(t, account, "EUR", 100).PayoutID
	b.bring(t, id, state, token)
	return id
}

func (b bundle) bring(t *testing.T, id string, state paystore.State, token paystore.Token) {
	t.Helper()
	steps := []struct {
		to   paystore.State
		path string
		body any
	}{
		{paystore.Claimed, payapi.PathClaim, payapi.ClaimPayout{PayoutID: id, Holder: "worker"}},
		{paystore.RailSubmitted, payapi.PathSubmit, ref(id)},
		{paystore.RailAcked, payapi.PathSettle, ref(id)},
		{paystore.Posted, payapi.PathPost, ref(id)},
	}
	ambiguous := state == paystore.RailAmbiguous
	if state == paystore.Pending {
		return
	}
	for _, s := range steps {
		if s.path == payapi.PathSettle {
			b.attempt(t, id, token, map[bool]string{true: "TIMEOUT", false: "ACKED"}[ambiguous])
		}
		want[map[string]any](t, "bring it to "+string(s.to), b.post(t, s.path, token, s.body), http.StatusOK)
		if s.to == state || ambiguous && s.path == payapi.PathSettle {
			return
		}
	}
}

// attempt does what rail-proxy does: mark, attempt, outcome.
func (b bundle) attempt(t *testing.T, id string, token paystore.Token, outcome string) {
	t.Helper()
	b.exec(t, `INSERT INTO rail_high_water AS h (account_id, highest_token) SELECT account_id, $2 FROM payout WHERE payout_id = $1
		ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token WHERE h.highest_token < EXCLUDED.highest_token`, id, token)
	b.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token)
		SELECT gen_random_uuid(), payout_id, idempotency_key, $2 FROM payout WHERE payout_id = $1`, id, token)
	if outcome != "" {
		b.exec(t, `UPDATE rail_submission SET outcome = $2, rail_reference = CASE $2 WHEN 'ACKED' THEN 'r-' || payout_id END, resolved_at = now()
			WHERE payout_id = $1 AND outcome IS NULL`, id, outcome)
	}
}

// metric is a counter's or a gauge's value, 0 for none.
func (b bundle) metric(t *testing.T, name, resource string) float64 {
	t.Helper()
	families, err := b.Metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (resource == "" || m.GetLabel()[0].GetValue() == resource) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// askReady asks whether /readyz says so.
func askReady(b bundle, says string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return strings.Contains(string(text), says), err
	}
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
