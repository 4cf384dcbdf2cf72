package payresource

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/pgtx"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

//go:embed queries/*.sql
var queryFiles embed.FS

var (
	listNewestQuery = listQuery("list_newest")
	listOldestQuery = listQuery("list_oldest")
	highestQuery    = pgtx.Statement(queryFiles, "highest")
)

func listQuery(name string) string {
	return pgtx.Statement(queryFiles, name, "account_id", "states", "claimed_by", "idempotency_key", "older_than_seconds", "after_at", "after_id", "row_limit")
}

// fencingSwitch is the setting of K-4.5.
const fencingSwitch = "payment.fencing.enabled"

// DefaultTimeout is above every time that an operation waits by itself: for a connection,
// for locks, for a deadlock to be tried again.
const DefaultTimeout = 15 * time.Second

// Options configure New.
type Options struct {
	// Database is paydb, under a login of payapp_resource.
	Database paystore.Options
	// FencingDisabled is payment.fencing.enabled=false, for negative controls alone
	// (K-4.5).
	FencingDisabled bool
	// RailDeadline is the forwarding deadline of rail-proxy (K-4.11): an attempt that
	// is older and in flight is listed as unsettled. Required.
	RailDeadline time.Duration
	// Timeout is how long paydb has for one operation; zero is DefaultTimeout.
	Timeout time.Duration
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Service is payment-resource.
type Service struct {
	opts    Options
	link    *paydb.Link
	metrics *telemetry.PaymentMetrics
}

// New opens paydb. It returns *paydb.RoleError for a login that is not this service's
// own, and what paystore.Open refuses; a paydb that is down is no error, see paydb.Open.
func New(ctx context.Context, opts Options) (*Service, error) {
	link, err := paydb.Open(ctx, paydb.Options{Options: opts.Database, Role: paydb.Resource, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	s := &Service{opts: opts, link: link, metrics: opts.Metrics.Payments()}
	if opts.Timeout <= 0 {
		s.opts.Timeout = DefaultTimeout
	}
	s.metrics.FencingEnabled.Set(1)
	if opts.FencingDisabled {
		s.metrics.FencingEnabled.Set(0)
		opts.Log.WarnContext(ctx, paydb.FencingOff(fencingSwitch))
	}
	return s, nil
}

// Close closes the connections; it waits for those in use.
func (s *Service) Close() { s.link.Close() }

// Ready tells how paydb stands, and whether fencing is off.
func (s *Service) Ready(ctx context.Context) []httpd.Condition {
	return append(s.link.Ready(ctx), paydb.Fencing(fencingSwitch, s.opts.FencingDisabled))
}

// store is posting on the open paydb, or why it is not open.
func (s *Service) store(ctx context.Context) (*posting.Store, error) {
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	return posting.New(db, posting.Options{FencingDisabled: s.opts.FencingDisabled}), nil
}

// fail makes the answer of an error, and tells the log and the counters what an
// operator wants to see of it.
func (s *Service) fail(ctx context.Context, err error) error {
	if e, fenced := errors.AsType[*paystore.FencedError](err); fenced {
		s.metrics.FencedOut.WithLabelValues(resource(e.Resource)).Inc()
		s.opts.Log.WarnContext(ctx, telemetry.EventFencedOut,
			slog.String("key", paystore.LockKey(e.AccountID)), slog.String("resource", string(e.Resource)),
			slog.String("account_id", e.AccountID), slog.String("payout_id", e.PayoutID),
			slog.Int64("presented_token", int64(e.Presented)), slog.Int64("stored_token", int64(e.Stored)), slog.String("request_id", httpd.RequestID(ctx)))
	}
	p := payapi.Problem(err)
	if p.Status >= http.StatusInternalServerError {
		s.opts.Log.ErrorContext(ctx, "request failed",
			slog.String("error", err.Error()), slog.String("code", p.Code), slog.String("request_id", httpd.RequestID(ctx)))
	}
	return p
}

// resource is the label of K-4.4: what guards an account in paydb is "account", but
// for a leg's own fence.
func resource(r paystore.Resource) string {
	if r == paystore.ResourceLedger {
		return string(r)
	}
	return string(paystore.ResourceAccount)
}
