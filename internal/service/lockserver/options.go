package lockserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// Options say where a lock-server finds what it needs.
type Options struct {
	// Store is where lockdb is and how it is to be checked: Config, PeerConfig,
	// AllowSameInstance, Environment and MarkDir. The rest is this package's.
	Store postgres.Options
	// Open opens another backend in place of lockdb, whose name is Name; Store is not
	// looked at then. highest is the highest token that the payment services have told
	// and that this process has shown, to be asked before the first grant (K-7.6). It
	// returns what the Open of a backend does.
	Open func(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (Backend, error)
	Name string
	// Payments are the payment services, whose highest token must be known before
	// anything is granted (K-7.6). A deployment that has none says so by NoPayments.
	Payments   []FloorSource
	NoPayments bool
	// ReapEvery is how often lapsed sessions are ended (K-2.4), with jitter, so that
	// replicas do not meet; 0 is every second.
	ReapEvery time.Duration
	// Rescue, when set, is called when a sign of a rewind has closed the grants, 15 s
	// after it has returned at the soonest (K-7.10, restore.auto=safe); it is given two
	// minutes. It returns nil when the grants may be open again.
	Rescue func(context.Context) error
	// MostWait bounds how long an acquire may wait (default 10 min).
	MostWait time.Duration
	// Timeout is how long the store has for one call of a caller's; 0 is 15 s for a
	// change and a minute for a read.
	Timeout time.Duration
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// The store's connections, by what they are for: a busy kind never takes those of
// another, so that renewals and heartbeats go on whatever else is asked for.
const (
	mostKeeps   = 4
	mostChanges = 4
	mostReads   = 3
	// One each: checking, reaping and watching.
	mostOther = 3
	mostConns = engine.Connections + mostKeeps + mostChanges + mostReads + mostOther
)

// How long the store has for one call, where Options.Timeout says nothing: a connection
// that nobody answers on must not keep its place for ever. Reads may be of whole tables.
const (
	changeTimeout = 15 * time.Second
	readTimeout   = time.Minute
)

// within is a context for one call of the store.
func (o Options) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(o.Timeout, most))
}

// name is what the store is called in messages and in health.
func (o Options) name() string {
	if o.Open == nil {
		return "lockdb"
	}
	return o.Name
}

func (o Options) validate() error {
	switch {
	case o.NoPayments && len(o.Payments) > 0:
		return errors.New("payment services are configured, and the configuration says that there are no payments: correct one of the two")
	case !o.NoPayments && len(o.Payments) == 0:
		return errors.New("the payment services are not configured, whose highest token must be known before a lock is granted (K-7.6): give their addresses, or say that this deployment has no payments")
	}
	return nil
}
