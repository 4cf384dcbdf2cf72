package railproxy

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtx"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

//go:embed queries/*.sql
var queryFiles embed.FS

var highestQuery = pgtx.Statement(queryFiles, "highest")

// fencingSwitch is the setting of K-4.5.
const fencingSwitch = "rail.proxy.fencing.enabled"

// spare is how much longer an operation may take than the rail and its answer's record.
const spare = 15 * time.Second

// Options configure New.
type Options struct {
	// Database is paydb, under a login of payapp_rail.
	Database paystore.Options
	// Rail is the payment rail, such as httprail.New makes one.
	Rail rail.Rail
	// Deadline is the forwarding deadline (K-4.11), Listen how much longer a late answer
	// is taken down; zero for the defaults of package rail.
	Deadline, Listen time.Duration
	// FencingDisabled is rail.proxy.fencing.enabled=false, for negative controls alone
	// (K-4.5).
	FencingDisabled bool
	Log             *slog.Logger
	Metrics         *telemetry.Metrics
}

// Service is rail-proxy.
type Service struct {
	opts    Options
	link    *paydb.Link
	metrics *telemetry.PaymentMetrics

	mu    sync.Mutex
	proxy *rail.Proxy // nil until paydb was open
}

// New opens paydb. It returns *paydb.RoleError for a login that is not this service's
// own, and what paystore.Open refuses; a paydb that is down is no error, see paydb.Open.
func New(ctx context.Context, opts Options) (*Service, error) {
	link, err := paydb.Open(ctx, paydb.Options{Options: opts.Database, Role: paydb.Rail, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	s := &Service{opts: opts, link: link, metrics: opts.Metrics.Payments()}
	if opts.Deadline <= 0 {
		s.opts.Deadline = rail.DefaultTimeout
	}
	s.metrics.FencingEnabled.Set(1)
	if opts.FencingDisabled {
		s.metrics.FencingEnabled.Set(0)
		opts.Log.WarnContext(ctx, paydb.FencingOff(fencingSwitch))
	}
	return s, nil
}

// Close waits until every payment under way has its answer on record, or the
// forwarding deadline has passed, and closes the connections. Call it when the server
// has stopped: a request that outlived that is waited for too, and no other payment
// begins.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proxy != nil {
		s.proxy.Close()
	}
	s.link.Close()
}

// Ready tells how paydb stands, and whether fencing is off. The rail is not asked: an
// outage of it is answered with TIMEOUT, not with silence.
func (s *Service) Ready(ctx context.Context) []httpd.Condition {
	return append(s.link.Ready(ctx), paydb.Fencing(fencingSwitch, s.opts.FencingDisabled))
}

// door is the proxy on the open paydb, or why it is not open.
func (s *Service) door(ctx context.Context) (*rail.Proxy, error) {
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proxy == nil {
		s.proxy = rail.New(db, s.opts.Rail, rail.Options{
			Timeout: s.opts.Deadline, Listen: s.opts.Listen, FencingDisabled: s.opts.FencingDisabled, Observe: s.observe,
		})
	}
	return s.proxy, nil
}

// observe counts and logs what the store saw.
func (s *Service) observe(ctx context.Context, e rail.Event) {
	attrs := []slog.Attr{
		slog.String("key", paystore.LockKey(e.AccountID)), slog.String("resource", string(paystore.ResourceRail)),
		slog.String("account_id", e.AccountID), slog.String("payout_id", e.PayoutID),
		slog.Int64("presented_token", int64(e.Presented)), slog.Int64("stored_token", int64(e.Stored)), slog.String("request_id", httpd.RequestID(ctx)),
	}
	switch e.Name {
	case rail.EventFencedOut:
		s.metrics.FencedOut.WithLabelValues(string(paystore.ResourceRail)).Inc()
		s.opts.Log.LogAttrs(ctx, slog.LevelWarn, telemetry.EventFencedOut, attrs...)
	case rail.EventDuplicate:
		s.metrics.DuplicateRail.Inc()
		s.opts.Log.LogAttrs(ctx, slog.LevelWarn, telemetry.EventDuplicateRail, attrs...)
	default: // an answer that is not on record, or contradicts the one that is
		s.opts.Log.LogAttrs(ctx, slog.LevelError, e.Name, append(attrs,
			slog.String("outcome", string(e.Said.Outcome)), slog.String("reference", e.Said.Reference), slog.Any("error", e.Err))...)
	}
}

// fail makes the answer of an error. What a token met was observed already.
func (s *Service) fail(ctx context.Context, err error) error {
	p := payapi.Problem(unanswered(err))
	if p.Status >= http.StatusInternalServerError {
		s.opts.Log.ErrorContext(ctx, "request failed",
			slog.String("error", err.Error()), slog.String("code", p.Code), slog.String("request_id", httpd.RequestID(ctx)))
	}
	return p
}
