package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// The defaults of Options.
const (
	DefaultTTL     = 30 * time.Second
	DefaultWorkers = 8
	DefaultIdle    = time.Second
	DefaultDrain   = 20 * time.Second
)

// Locks is what the executor needs of lock-server.
type Locks interface {
	client.Keeper
	CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error)
	EndSession(ctx context.Context, id lockstore.SessionID) (int, error)
	Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error)
	Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error)
	Show(ctx context.Context, key string) (lockstore.Entry, error)
}

// Payments is what it needs of payment-resource.
type Payments interface {
	Payouts(ctx context.Context, filter client.PayoutFilter) (payapi.PayoutList, error)
	Unsettled(ctx context.Context) ([]payapi.UnsettledPayout, error)
	Open(ctx context.Context, accountID string) ([]payapi.Payout, error)
	Claim(ctx context.Context, payoutID, holder string, token paystore.Token) (payapi.Payout, error)
	Release(ctx context.Context, payoutID string, token paystore.Token) (bool, error)
	CheckFunds(ctx context.Context, payoutID string, token paystore.Token) error
	Submit(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error)
	Settle(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error)
	Reject(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error)
	Resolve(ctx context.Context, by payapi.SettleByEvidence, token paystore.Token) (payapi.Payout, error)
	Post(ctx context.Context, payoutID string, token paystore.Token) (payapi.Posting, error)
}

// Rail is what it needs of rail-proxy.
type Rail interface {
	Submit(ctx context.Context, payoutID string, token paystore.Token) (payapi.Attempt, error)
	Ask(ctx context.Context, payoutID string) (payapi.Attempt, error)
	Adopt(ctx context.Context, payoutID string, token paystore.Token) (payapi.Attempt, error)
	Lookup(ctx context.Context, payoutID string) (payapi.Answer, error)
}

var (
	_ Locks    = (*client.Locks)(nil)
	_ Payments = (*client.Payments)(nil)
	_ Rail     = (*client.Rail)(nil)
)

// Options configure New.
type Options struct {
	Locks    Locks
	Payments Payments
	Rail     Rail
	// Health asks one of the three services, by its name, whether it is ready. Nil
	// believes what was heard last.
	Health func(ctx context.Context, service string) error
	// Owner is who holds the locks and claims the payouts: one name per executor, such
	// as executor@host-7.
	Owner string
	// TTL is the lease of an account; 0 is DefaultTTL. How long a payout takes does not
	// matter to it: it is renewed.
	TTL time.Duration
	// Workers is how many accounts are worked on at once; 0 is DefaultWorkers.
	Workers int
	// Idle is the longest pause when there is nothing to do; 0 is DefaultIdle.
	Idle time.Duration
	// Drain is how long what has been begun may still take once the executor is told to
	// stop; 0 is DefaultDrain.
	Drain   time.Duration
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Trace, when set, has a trace for each grant and the payout under it, which goes on
	// through the services.
	Trace *telemetry.Tracing
}

// Executor pays payouts.
type Executor struct {
	opts    Options
	metrics *telemetry.ExecutorMetrics
	agenda  *agenda
	health  health
}

// New is an executor; Run starts it. It returns lockstore.ErrInvalid for an owner or a
// lease that cannot be.
func New(opts Options) (*Executor, error) {
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Workers <= 0 {
		opts.Workers = DefaultWorkers
	}
	if opts.Idle <= 0 {
		opts.Idle = DefaultIdle
	}
	if opts.Drain <= 0 {
		opts.Drain = DefaultDrain
	}
	// A session lives twice as long as a lease.
	if err := errors.Join(lockstore.ValidOwner(opts.Owner), lockstore.ValidTTL(opts.TTL), lockstore.ValidTTL(2*opts.TTL)); err != nil {
		return nil, err
	}
	return &Executor{opts: opts, metrics: opts.Metrics.Executor(), agenda: newAgenda()}, nil
}

// Run pays until ctx ends, and then drains: it takes nothing new, finishes what it has
// begun or gives it back, and returns nil when it holds nothing any more.
func (e *Executor) Run(ctx context.Context) error {
	working, hurry := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hurry(nil)
	accounts := make(chan string)
	var workers sync.WaitGroup
	for range e.opts.Workers {
		workers.Go(func() { e.work(ctx, working, accounts) })
	}
	e.find(ctx, accounts)
	close(accounts)
	late := time.AfterFunc(e.opts.Drain, func() { hurry(errDrained) })
	defer late.Stop()
	e.opts.Log.InfoContext(ctx, "draining", slog.Duration("drain", e.opts.Drain))
	workers.Wait()
	return nil
}

// errDrained ends what takes longer than the drain.
var errDrained = errors.New("the executor was stopped, and its drain is over")

// Ready tells how each of the three services answered when it was last asked. One that
// was away is asked again: others may have done what there was to ask it for.
func (e *Executor) Ready(ctx context.Context) []httpd.Condition {
	for _, service := range e.health.away() {
		if e.opts.Health != nil && e.opts.Health(ctx, service) == nil {
			e.heard(ctx, service, nil)
		}
	}
	return e.health.conditions()
}

// health is how the services answered last.
type health struct {
	mu   sync.Mutex
	last map[string]error
}

// The services, as they are called in conditions and log lines.
const (
	LockServer      = "lock-server"
	PaymentResource = "payment-resource"
	RailProxy       = "rail-proxy"
)

// heard takes down how a service answered, and tells whether that is news.
func (h *health) heard(service string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[string]error{}
	}
	before, known := h.last[service]
	h.last[service] = err
	return !known && err != nil || known && (before == nil) != (err == nil)
}

// away are the services that did not answer when they were last asked.
func (h *health) away() (services []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for service, err := range h.last {
		if err != nil {
			services = append(services, service)
		}
	}
	return services
}

func (h *health) conditions() []httpd.Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	var conditions []httpd.Condition
	for _, service := range []string{LockServer, PaymentResource, RailProxy} {
		c := httpd.Condition{Name: service, State: httpd.Good}
		switch err, known := h.last[service]; {
		case !known:
			c.Reason = "not asked yet"
		case err != nil:
			c.State, c.Reason = httpd.Failed, err.Error()
		}
		conditions = append(conditions, c)
	}
	return conditions
}

// heard takes down how a service answered: it is away when it could not be reached, or
// did not answer. What it refused is an answer.
func (e *Executor) heard(ctx context.Context, service string, err error) {
	if !away(err) {
		err = nil
	} else if ctx.Err() != nil {
		return // its own end says nothing about the service
	}
	if !e.health.heard(service, err) {
		return
	}
	if err != nil {
		e.opts.Log.WarnContext(ctx, "service away", slog.String("peer", service), failed(err))
		return
	}
	e.opts.Log.InfoContext(ctx, "service back", slog.String("peer", service))
}

// failed is an error in a log line.
func failed(err error) slog.Attr { return slog.Any("error", err) }

// away tells that a service, or its database, was not reached or did not answer.
func away(err error) bool {
	var lockUnreachable *lockstore.UnreachableError
	var lockUnknown *lockstore.UnknownOutcomeError
	var payUnreachable *paystore.UnreachableError
	var payUnknown *paystore.UnknownOutcomeError
	return errors.As(err, &lockUnreachable) || errors.As(err, &lockUnknown) || errors.As(err, &payUnreachable) || errors.As(err, &payUnknown)
}
