package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Tracing sends spans to a collector. A nil one is tracing switched off: its
// methods hand back what they were given, so that nothing is paid for.
type Tracing struct {
	provider  *trace.TracerProvider
	propagate propagation.TextMapPropagator
}

// endpoints are the variables that switch tracing on. Without an address there is
// nobody to send spans to; the exporter reads the other OTEL_* variables itself.
func endpoints() []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
}

// StartTracing starts tracing of a service where the environment names a
// collector, and returns nil where it does not, or says OTEL_SDK_DISABLED=true or
// OTEL_TRACES_EXPORTER=none. Stop it before the process ends.
func StartTracing(ctx context.Context, service, version string, env func(string) string) (*Tracing, error) {
	var named bool
	for _, name := range endpoints() {
		named = named || env(name) != ""
	}
	if !named || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // a nil Tracing is tracing switched off
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version),
	), resource.WithFromEnv(), resource.WithHost())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	return newTracing(trace.WithBatcher(exporter), trace.WithResource(about)), nil
}

func newTracing(opts ...trace.TracerProviderOption) *Tracing {
	return &Tracing{
		provider:  trace.NewTracerProvider(opts...),
		propagate: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
}

// Request begins the span of a request that has come, within its sender's trace; the
// returned function ends it by the answer's status. otelhttp's own handler
// would link five hundred types in, one for each set of abilities that a writer may
// have, and every start of the program pays for them (docs/adr/0006).
func (t *Tracing) Request(r *http.Request) (*http.Request, func(status int)) {
	if t == nil {
		return r, func(int) {}
	}
	ctx := t.propagate.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.provider.Tracer(scope).Start(ctx, spanName("", r), oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path),
	))
	return r.WithContext(ctx), func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// scope is what the spans made here say they come from.
const scope = "github.com/dlockctl/dlockctl/internal/telemetry"

func spanName(_ string, r *http.Request) string { return r.Method + " " + r.URL.Path }

// Transport makes a span of each request sent, and hands the trace on. No query is in
// it, for lock keys, session and payout ids stand there.
func (t *Tracing) Transport(base http.RoundTripper) http.RoundTripper {
	if t == nil {
		return base
	}
	return otelhttp.NewTransport(withoutQuery{base}, t.options()...)
}

// withoutQuery takes the query out of the address that otelhttp has written on the span
// by then; otelhttp itself has no way to leave it out.
type withoutQuery struct{ base http.RoundTripper }

// RoundTrip sends the request as it is.
func (w withoutQuery) RoundTrip(r *http.Request) (*http.Response, error) {
	address := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}
	oteltrace.SpanFromContext(r.Context()).SetAttributes(attribute.String("url.full", address.String()))
	return w.base.RoundTrip(r) //nolint:wrapcheck // a transport's own errors are what its client looks for
}

// Begin makes a span of something that no request began: what is sent and asked under
// its context stands in one trace. end ends it.
func (t *Tracing) Begin(ctx context.Context, name string) (begun context.Context, end func()) {
	if t == nil {
		return ctx, func() {}
	}
	begun, span := t.provider.Tracer(scope).Start(ctx, name)
	return begun, func() { span.End() }
}

func (t *Tracing) options() []otelhttp.Option {
	return []otelhttp.Option{
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(t.propagate),
		// Figures are Prometheus' business here.
		otelhttp.WithMeterProvider(noopmetric.NewMeterProvider()),
		otelhttp.WithSpanNameFormatter(spanName),
	}
}

// QueryTracer makes a span of each query, by its text: the parameters stay out,
// for there are session ids among them. It is nil where nobody traces.
func (t *Tracing) QueryTracer() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(noopmetric.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes())
}

// Stop sends what is left.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop tracing: %w", err)
	}
	return nil
}
