package telemetry_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// The names that K-4.4 fixes, each exported by the service that it belongs to, from
// the start.
//
// Clauses: K-4.4
// Mutation: rename a metric, or leave the resources out of newPayments
func TestMetricNames(t *testing.T) {
	t.Parallel()
	for service, c := range map[string]struct {
		group func(*telemetry.Metrics)
		want  []string
	}{
		"lock-server":      {func(m *telemetry.Metrics) { m.Locks() }, []string{"lock_session_lost_total 0", "dlockctl_queue_length 0", "dlockctl_waiters 0", "dlockctl_batch_size_count 0"}},
		"payment-resource": {func(m *telemetry.Metrics) { m.Payments() }, []string{`lock_fenced_out_total{resource="account"} 0`, `lock_fenced_out_total{resource="ledger"} 0`, "dlockctl_fencing_enabled 0"}},
		"rail-proxy":       {func(m *telemetry.Metrics) { m.Payments() }, []string{`lock_fenced_out_total{resource="rail"} 0`, "rail_duplicate_attempted_total 0"}},
		"payout-executor":  {func(m *telemetry.Metrics) { m.Executor() }, []string{"lock_session_lost_total 0", "dlockctl_executor_running 0"}},
	} {
		m := telemetry.NewMetrics(service)
		c.group(m)
		c.group(m) // asking again makes nothing twice
		text := scrape(t, m)
		for _, want := range c.want {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("%s does not export %s", service, want)
			}
		}
		if service == "rail-proxy" && strings.Contains(text, `resource="account"`) {
			t.Error("rail-proxy exports what payment-resource guards")
		}
	}
}

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}

// A pool's statistics are its own at the moment of asking, and nothing while there is
// no pool.
//
// Mutation: keep the first Stat in the collector
func TestPool(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("test")
	config, err := pgxpool.ParseConfig("postgres://u@127.0.0.1:1/d?pool_max_conns=7")
	if err != nil {
		t.Fatal(err)
	}
	var pool *pgxpool.Pool
	m.Pool("lockdb", func() *pgxpool.Stat {
		if pool == nil {
			return nil
		}
		return pool.Stat()
	})
	if text := scrape(t, m); strings.Contains(text, "dlockctl_pool") {
		t.Errorf("without a pool: %s", text)
	}
	if pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	text := scrape(t, m)
	for _, want := range []string{`dlockctl_pool_connections_max{pool="lockdb"} 7`, `dlockctl_pool_connections_used{pool="lockdb"} 0`, `dlockctl_pool_wait_seconds_total{pool="lockdb"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Mutation: leave UnmarshalText or utc out of NewLogger
func TestLogger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, level, want string }{
		{"text", "info", `^time=\S+Z level=WARN msg=fenced_out resource=rail\n$`},
		{"json", "warn", `^\{"time":"\S+Z","level":"WARN","msg":"fenced_out","resource":"rail"\}\n$`},
		{"json", "ERROR", `^$`},
	} {
		var out bytes.Buffer
		log, err := telemetry.NewLogger(&out, c.format, c.level)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn(telemetry.EventFencedOut, slog.String("resource", "rail"))
		if !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("%s from %s: %q", c.format, c.level, out.String())
		}
	}
	for _, c := range [][2]string{{"xml", "info"}, {"text", "loud"}, {"", ""}} {
		if _, err := telemetry.NewLogger(io.Discard, c[0], c[1]); err == nil {
			t.Errorf("format %q, level %q: taken", c[0], c[1])
		}
	}
}

// Nothing traces unless the environment names a collector, and what is off hands
// back what it was given.
//
// Mutation: return a Tracing without an endpoint, or begin a span in Request when nil
func TestTracingIsOff(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{
		{},
		{"OTEL_SERVICE_NAME": "x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
	} {
		trace, err := telemetry.StartTracing(t.Context(), "test", "1", func(name string) string { return env[name] })
		if err != nil || trace != nil {
			t.Errorf("%v: %v, %v", env, trace, err)
		}
	}
	var off *telemetry.Tracing
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	if same, ended := off.Request(r); same != r || ended == nil || off.Transport(http.DefaultTransport) != http.DefaultTransport || off.QueryTracer() != nil {
		t.Error("what is off does something")
	}
	if err := off.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// One trace goes from the client through the service: the header carries it, and the
// span of the service has the client's as its parent.
//
// Mutation: leave WithPropagators out of options, or Extract out of Request.
func TestTracePropagates(t *testing.T) {
	// Not parallel: the exporter reads the process's own environment.
	spans := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { spans <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	trace, err := telemetry.StartTracing(t.Context(), "test", "1", func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}[name]
	})
	if err != nil || trace == nil {
		t.Fatalf("%v, %v", trace, err)
	}
	parents := make(chan string, 2)
	inner := httptest.NewServer(traced(trace, func(r *http.Request) { parents <- r.Header.Get("Traceparent") }))
	defer inner.Close()
	client := &http.Client{Transport: trace.Transport(http.DefaultTransport)}
	outer := httptest.NewServer(traced(trace, func(r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		send(r.Context(), t, client, inner.URL)
	}))
	defer outer.Close()
	send(t.Context(), t, client, outer.URL)
	first, second := <-parents, <-parents
	if len(first) != 55 || first[3:35] != second[3:35] || first == second {
		t.Errorf("the requests carry %q and %q, want two spans of one trace", first, second)
	}
	if err := trace.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("/v1/traces", <-spans); diff != "" {
		t.Error(diff)
	}
}

// A span of a request, sent or answered, holds the path and nothing of the query, of a
// user in the address, or of the body: lock keys and ids stand there (K-2.12).
//
// Mutation: leave withoutQuery out of Transport, or put r.URL.String() into url.path.
func TestTracesHoldNoQuery(t *testing.T) {
	// Not parallel: the exporter reads the process's own environment.
	sent := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		spans, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent <- string(spans)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	trace, err := telemetry.StartTracing(t.Context(), "test", "1", func(string) string { return collector.URL })
	if err != nil || trace == nil {
		t.Fatalf("%v, %v", trace, err)
	}
	service := httptest.NewServer(traced(trace, func(r *http.Request) {
		if r.URL.Query().Get("key") != "hidden-key" {
			t.Errorf("the query that came is %q", r.URL.RawQuery)
		}
	}))
	defer service.Close()
	client := &http.Client{Transport: trace.Transport(http.DefaultTransport)}
	send(t.Context(), t, client, strings.Replace(service.URL, "://", "://hidden-user:hidden-word@", 1)+"/v1/locks/show?key=hidden-key")
	if err := trace.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := <-sent
	for _, want := range []string{"url.full", service.URL + "/v1/locks/show", "url.path"} {
		if !strings.Contains(spans, want) {
			t.Errorf("no span holds %q", want)
		}
	}
	if strings.Contains(spans, "hidden") {
		t.Errorf("a span holds what the query or the user says: %q", spans)
	}
}

// traced answers within a span of its own, as a service does.
func traced(trace *telemetry.Tracing, answer func(*http.Request)) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r, ended := trace.Request(r)
		defer ended(http.StatusOK)
		answer(r)
	})
}

func send(ctx context.Context, t *testing.T, client *http.Client, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	response.Body.Close()
}
