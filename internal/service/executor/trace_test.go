package executor_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/executor"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// traces notes the trace that each request to a path belongs to.
type traces struct {
	mu sync.Mutex
	of map[string]string
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (tr *traces) before(base http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if parent := r.Header.Get("Traceparent"); r.Method == http.MethodPost && len(parent) == 55 {
			tr.mu.Lock()
			tr.of[r.URL.Path] = parent[3:35]
			tr.mu.Unlock()
		}
		return base.RoundTrip(r)
	})
}

// What is done for a payout stands in one trace, from the claim through the rail to the
// posting, when somebody asks for traces.
//
// Mutation: leave Begin out of granted.
func TestOneTraceForAPayout(t *testing.T) {
	// Not parallel: the exporter reads the process's own environment.
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	trace, err := telemetry.StartTracing(t.Context(), "payout-executor", "1", func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}[name]
	})
	if err != nil || trace == nil {
		t.Fatalf("%v, %v", trace, err)
	}
	w := newWorld(t, patient)
	seen := &traces{of: map[string]string{}}
	wrap := func(base http.RoundTripper) http.RoundTripper { return trace.Transport(seen.before(base)) }
	payments, err := client.NewPayments(client.Options{URL: w.payURL, Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	rail, err := client.NewRail(client.Options{URL: w.railURL, Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, account(1), 100)
	r := w.start(t, "a", func(o *executor.Options) {
		o.Payments, o.Rail, o.Trace, o.Workers = payments, rail, trace, 1
	})
	w.until(t, "POSTED 1")
	r.stop()
	<-r.done
	if err := trace.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, id := range seen.of {
		ids[id] = true
	}
	if len(seen.of) < 5 || len(ids) != 1 {
		t.Errorf("the requests are of the traces %v, want one", seen.of)
	}
}
