package lockserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

// FloorSource is one of the payment services, which knows the highest token that
// reached it (K-7.6).
type FloorSource struct {
	// Name is how readiness names it, such as "payment-resource".
	Name string
	// Highest asks it.
	Highest func(context.Context) (lockstore.Token, error)
}

const (
	// checkEvery is how often a store that grants is looked at.
	checkEvery = time.Second
	// checkTimeout bounds opening and looking.
	checkTimeout = 10 * time.Second
	// askTimeout bounds looking at another backend than lockdb, whose client tries again
	// by itself for as long as it may: readiness has three seconds, and may come while
	// another look is under way.
	askTimeout = 1300 * time.Millisecond
	// firstRetry and lastRetry bound the back-off while there is no store.
	firstRetry, lastRetry = 200 * time.Millisecond, 5 * time.Second
)

// link is the engine's way to lockdb: it opens the store, opens it anew when the
// database was away, and knows why nothing is granted.
type link struct {
	opts Options
	now  atomic.Pointer[standing]
	// shown is the highest token that this process has shown to anybody: a store
	// that is opened anew must not forget it (K-7.6).
	shown atomic.Int64
	poke  chan struct{}
	// rewound is told when a look finds a sign of a rewind.
	rewound chan struct{}

	// checking lets one look at a time, none once ended is set.
	checking sync.Mutex
	ended    bool
	floor    *floor
	closing  sync.WaitGroup
}

// standing is how the link stands.
type standing struct {
	store Backend
	// down is why there is no store, closed why one that is there grants nothing.
	down, closed error
}

// refusal is why nothing is granted, or nil.
func (s *standing) refusal() error {
	if s.down != nil {
		return s.down
	}
	return s.closed
}

func newLink(opts Options) *link {
	l := &link{opts: opts, poke: make(chan struct{}, 1), rewound: make(chan struct{}, 1), floor: newFloor(opts)}
	l.now.Store(&standing{down: &lockstore.UnreachableError{Doing: "open " + opts.name(), Err: errors.New("the service is starting")}})
	return l
}

func (l *link) store() (Backend, error) {
	now := l.now.Load()
	if now.down != nil {
		return nil, now.down
	}
	return now.store, nil
}

// Changing implements engine.Lockdb.
func (l *link) Changing() (engine.Database, error) {
	store, err := l.store()
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Granting implements engine.Lockdb.
func (l *link) Granting() error {
	return l.now.Load().refusal()
}

// Saw implements engine.Lockdb.
func (l *link) Saw(token lockstore.Token) {
	for {
		have := l.shown.Load()
		if have >= int64(token) || l.shown.CompareAndSwap(have, int64(token)) {
			return
		}
	}
}

// Failed implements engine.Lockdb: it has the database looked at soon when a call says that it may be away.
func (l *link) Failed(err error) {
	_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
	if unreachable || unknown || errors.Is(err, lockstore.ErrNotPrimary) {
		signal(l.poke)
	}
}

// signal tells whoever waits for it, now or next.
func signal(waits chan<- struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

// run looks at the database until ctx ends, and closes the store.
func (l *link) run(ctx context.Context) {
	pause := firstRetry
	for {
		l.check(ctx)
		if l.now.Load().down == nil {
			pause = checkEvery
		} else {
			pause = min(2*pause, lastRetry)
		}
		timer := time.NewTimer(engine.Jitter(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			l.close()
			return
		case <-l.poke:
			timer.Stop()
			pause = firstRetry
		case <-timer.C:
		}
	}
}

func (l *link) close() {
	l.checking.Lock()
	defer l.checking.Unlock()
	l.ended = true
	last := l.now.Swap(&standing{down: &lockstore.UnreachableError{Doing: "ask " + l.opts.name(), Err: errors.New("the service has stopped")}})
	if last.store != nil {
		last.store.Close()
	}
	l.closing.Wait()
}

// check opens the store when there is none, and looks whether it grants. Whoever
// comes after close opens nothing, for nobody would close it.
func (l *link) check(ctx context.Context) {
	l.checking.Lock()
	defer l.checking.Unlock()
	if l.ended || ctx.Err() != nil {
		return
	}
	l.floor.learn(ctx, l.opts.Log)
	next := l.look(ctx, l.now.Load().store)
	if ctx.Err() != nil && next.down != nil {
		return // whoever asked had no more time: that says nothing about the database
	}
	l.stand(next)
	if isRewind(next.closed) {
		signal(l.rewound)
	}
}

// stand takes down how the link stands, and closes the store that it leaves.
func (l *link) stand(next *standing) {
	before := l.now.Swap(next)
	if before.store != nil && next.store != before.store {
		l.closing.Go(before.store.Close) // it waits for who still uses it
	}
	l.tell(before, next)
}

// look is one look at the database.
func (l *link) look(ctx context.Context, store Backend) *standing {
	within := checkTimeout
	if l.opts.Open != nil && store != nil {
		within = askTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if store != nil {
		return l.lookAt(ctx, store)
	}
	opened, err := l.open(ctx)
	if err != nil {
		return &standing{down: err}
	}
	next := l.lookAt(ctx, opened)
	if next.down != nil {
		l.closing.Go(opened.Close) // the next look opens another
	}
	return next
}

func (l *link) lookAt(ctx context.Context, store Backend) *standing {
	if unknown := l.floor.unknown(); unknown != nil {
		if _, err := store.Look(ctx, []string{}); err != nil {
			return &standing{down: err}
		}
		return &standing{store: store, closed: unknown}
	}
	err := store.CheckGrants(ctx)
	_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
	_, unsafe := errors.AsType[*lockstore.UnsafeError](err)
	switch {
	case err == nil, closed, unsafe:
		return &standing{store: store, closed: err}
	default:
		// Whatever stands behind the address next is looked at from the beginning.
		return &standing{down: err}
	}
}

func (l *link) open(ctx context.Context) (Backend, error) {
	highest := func(context.Context) (lockstore.Token, error) {
		return max(l.floor.token(), lockstore.Token(l.shown.Load())), nil
	}
	if l.opts.Open != nil {
		return l.opts.Open(ctx, highest)
	}
	opts := l.opts.Store
	opts.Purpose, opts.MaxConns, opts.PayHighest = postgres.Changing, mostConns, highest
	store, err := postgres.Open(ctx, opts)
	if err != nil {
		return nil, err // a nil *Store in the interface would not be nil
	}
	return store, nil
}

// tell logs what has changed.
func (l *link) tell(before, next *standing) {
	was, is := before.refusal(), next.refusal()
	switch {
	case is == nil && was != nil:
		l.opts.Log.Info("granting")
	case is != nil && (was == nil || was.Error() != is.Error()):
		l.opts.Log.Error("not granting", slog.String("reason", is.Error()))
	}
}

// outward is an error as others may hear it: where the store is, and as whom it is
// asked, is no caller's business. The log has it.
func (l *link) outward(err error) error {
	known, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	unknown, isUnknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[*net.OpError](err)
	hidden := connect || network || l.opts.Open != nil
	switch {
	case isUnknown && hidden: // before all else: it must never say "failed" (K-2.9)
		l.opts.Log.Debug("an answer of "+l.opts.name()+" was lost", slog.String("error", err.Error()))
		return &lockstore.UnknownOutcomeError{Doing: unknown.Doing, Err: errors.New("the answer was lost")}
	case connect, network, unreachable && hidden:
		l.opts.Log.Debug(l.opts.name()+" cannot be reached", slog.String("error", err.Error()))
		away := &lockstore.UnreachableError{Doing: "ask " + l.opts.name(), Err: errors.New("it cannot be reached")}
		if unreachable {
			away.Doing = known.Doing
		}
		return away
	}
	return err
}

// conditions tell the truth about the store, looked at now. Without one there is
// nothing to look at: opening it is the link's own work, and may take long.
func (l *link) conditions(ctx context.Context) []httpd.Condition {
	now := l.now.Load()
	if l.opts.Open == nil || now.store != nil {
		l.check(ctx)
		now = l.now.Load()
	}
	lockdb := httpd.Condition{Name: l.opts.name(), State: httpd.Good}
	grants := httpd.Condition{Name: "grants", State: httpd.Good}
	switch {
	case ctx.Err() != nil:
		lockdb.State, lockdb.Reason = httpd.Failed, l.opts.name()+" did not say in time how it is"
		grants.State, grants.Reason = httpd.Failed, l.opts.name()+" cannot be asked"
	case now.down != nil:
		lockdb.State, lockdb.Reason = httpd.Failed, l.outward(now.down).Error()
		grants.State, grants.Reason = httpd.Failed, l.opts.name()+" cannot be asked"
	case now.closed != nil:
		grants.State, grants.Reason = httpd.Failed, now.closed.Error()
	}
	return []httpd.Condition{lockdb, grants, l.floor.condition()}
}
