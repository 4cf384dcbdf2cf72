package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// Database is what the engine asks of lockdb: a [postgres.Store].
type Database interface {
	Exchange(ctx context.Context, x postgres.Exchange) (postgres.ExchangeResult, error)
	Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error)
	Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error)
	Look(ctx context.Context, keys []string) (map[string]lockstore.Entry, error)
	LiveSessions(ctx context.Context, ids []lockstore.SessionID) (map[lockstore.SessionID]bool, error)
}

// Lockdb is where the engine gets its database from.
type Lockdb interface {
	// Changing is the store, or why there is none.
	Changing() (Database, error)
	// Granting says why nothing is granted, or nil.
	Granting() error
	// Failed is told what a call of the store came back with.
	Failed(err error)
	// Saw is told each token before it is shown to anybody.
	Saw(token lockstore.Token)
}

// Metrics are told what happens. They are called under the engine's mutex, and
// must return at once.
type Metrics interface {
	Granted()
	Contended()
	Released()
	SessionLost()
	// Queued is how many calls wait for a batch, Waiting how many for a held key.
	Queued(n int)
	Waiting(n int)
	// Batch is told a batch's keys, BatchWait how long a call waited for its batch.
	Batch(keys int)
	BatchWait(d time.Duration)
	// HandOff is how long a lock took from the release that was asked for to the
	// grant of the next in the queue.
	HandOff(d time.Duration)
}

// The log events of the engine.
const (
	eventReleased  = "lock_released" // K-4.4
	eventGivenBack = "grant_given_back"
)

const (
	// callTimeout bounds one transaction, past which its outcome is unknown, and one
	// look: a connection on which nobody answers must not be waited on.
	callTimeout = 15 * time.Second
	// mostAlone bounds how many blocked keys are worked on by themselves.
	mostAlone = 4
	// lanes is how many batches are under way at once. While one waits for its
	// commit the next fills up; more would make them smaller.
	lanes = 2
	// Connections is how many of the store's the engine uses at most: those of its
	// lanes, of the keys that go alone, and one to look for waiters.
	Connections = lanes + mostAlone + 1
)

// Engine queues calls by key and carries many out in one transaction.
type Engine struct {
	db      Lockdb
	log     *slog.Logger
	metrics Metrics

	mu    sync.Mutex
	keys  map[string]*key
	ready []*key
	// waited are the keys that somebody has to look at for their waiters.
	waited map[*key]bool
	// queued counts the calls that wait for a lane, waiting those that wait for a held
	// key, underWay the busy keys.
	queued, waiting, underWay int
	closed                    bool
	more                      *sync.Cond
	closing                   chan struct{}

	poke  chan struct{}
	alone chan struct{}
	// working are the goroutines of calls that are settled by themselves, and life
	// bounds them.
	working sync.WaitGroup
	life    context.Context //nolint:containedctx // of the engine, not of a call
}

// New makes an engine. life bounds its transactions, and must outlast Run.
func New(life context.Context, db Lockdb, log *slog.Logger, metrics Metrics) *Engine {
	e := &Engine{
		life: life, db: db, log: log, metrics: metrics, keys: map[string]*key{}, waited: map[*key]bool{},
		poke: make(chan struct{}, 1), alone: make(chan struct{}, mostAlone), closing: make(chan struct{}),
	}
	e.more = sync.NewCond(&e.mu)
	return e
}

// Run works until Close is called and everything queued has been carried out.
func (e *Engine) Run() {
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() { e.lane(e.life) })
	}
	looking, stop := context.WithCancel(e.life)
	group.Go(func() { e.lookForWaiters(looking) })
	<-e.closing
	stop()
	group.Wait()
	e.working.Wait()
}

// Close ends Run; nothing may be asked of the engine afterwards.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	close(e.closing)
	e.more.Broadcast()
}

// Wait is how long a call may wait for a held key; the zero value does not wait.
type Wait struct {
	Most time.Duration
	// Stop is closed when the service goes away.
	Stop <-chan struct{}
}

// ErrDraining is what waiters are told when the service goes away.
var ErrDraining = errors.New("the service is stopping: nothing was granted; ask another, or ask again")

// Acquire tries once, or waits in the queue of the key. It returns what
// [lockstore.Store.Acquire] and [lockstore.Wait] return; ErrDraining when the
// service goes away. When ctx ends, the call leaves the queue, and what is granted
// to it all the same is given back.
func (e *Engine) Acquire(ctx context.Context, params lockstore.AcquireParams, w Wait) (lockstore.Grant, error) {
	if err := validAcquire(params); err != nil {
		return lockstore.Grant{}, err
	}
	if err := e.db.Granting(); err != nil {
		return lockstore.Grant{}, err
	}
	c := newCall(kindAcquire, params.Key)
	c.params, c.waits = params, w.Most > 0
	e.enqueue(c)
	if !c.waits {
		return e.await(ctx, c)
	}
	return e.awaitLong(ctx, c, w)
}

func validAcquire(params lockstore.AcquireParams) error {
	if err := errors.Join(lockstore.ValidKey(params.Key), lockstore.ValidOwner(params.Owner), lockstore.ValidTTL(params.TTL)); err != nil {
		return err
	}
	if _, err := uuid.Parse(string(params.Session)); err != nil || len(params.Session) != 36 {
		return fmt.Errorf("session id %s is not a UUID: %w", params.Session.Masked(), lockstore.ErrInvalid)
	}
	return nil
}

// await returns the answer, or leaves when ctx ends.
func (e *Engine) await(ctx context.Context, c *call) (lockstore.Grant, error) {
	select {
	case a := <-c.answered:
		return a.grant, a.err
	case <-ctx.Done():
		return e.leave(ctx, c)
	}
}

// awaitLong is await for a call that waits for a held key.
func (e *Engine) awaitLong(ctx context.Context, c *call, w Wait) (lockstore.Grant, error) {
	timer := time.NewTimer(w.Most)
	defer timer.Stop()
	var over error
	select {
	case a := <-c.answered:
		return a.grant, a.err
	case <-ctx.Done():
		return e.leave(ctx, c)
	case <-w.Stop:
		over = ErrDraining
	case <-timer.C:
	}
	unsent, last := e.giveUpWaiting(c)
	if !unsent {
		// Its try is under way: that one still counts.
		grant, err := e.await(ctx, c)
		if _, held := errors.AsType[*lockstore.HeldError](err); !held {
			return grant, err
		}
		last = err
	}
	if over == nil {
		over = &lockstore.WaitTimeoutError{Key: c.key, Waited: time.Since(c.since), Last: last}
	}
	return lockstore.Grant{}, over
}

// leave takes a call out whose caller has gone. One that was not sent leaves
// nothing behind; what is granted to one that was is given back (see settle).
func (e *Engine) leave(ctx context.Context, c *call) (lockstore.Grant, error) {
	doing := fmt.Sprintf("acquire lock %q", c.key)
	if e.abandon(c) {
		return lockstore.Grant{}, &lockstore.UnreachableError{Doing: doing, Err: context.Cause(ctx)}
	}
	select {
	case a := <-c.answered: // it was answered at this very moment
		if a.err == nil {
			e.GiveBack(a.grant)
			break
		}
		return lockstore.Grant{}, a.err
	default:
	}
	return lockstore.Grant{}, &lockstore.UnknownOutcomeError{Doing: doing, Err: context.Cause(ctx)}
}

// Release gives one grant back, whatever becomes of the caller: one that was asked
// for is carried out. It returns what [lockstore.Store.Release] returns.
func (e *Engine) Release(ctx context.Context, name string, token lockstore.Token) (lockstore.Release, error) {
	if err := errors.Join(lockstore.LookupKey(name), lockstore.ValidToken(token)); err != nil {
		return lockstore.Release{}, err
	}
	c := newCall(kindRelease, name)
	c.token = token
	e.enqueue(c)
	select {
	case a := <-c.answered:
		return a.release, a.err
	case <-ctx.Done():
		return lockstore.Release{}, &lockstore.UnknownOutcomeError{Doing: fmt.Sprintf("release lock %q", name), Err: context.Cause(ctx)}
	}
}

// GiveBack releases a grant whose client has gone. Nobody waits for it, and what
// cannot be given back lapses.
func (e *Engine) GiveBack(grant lockstore.Grant) {
	e.log.Info(eventGivenBack, slog.String("key", grant.Key), slog.Int64("token", int64(grant.Token)))
	c := newCall(kindRelease, grant.Key)
	c.token = grant.Token
	e.enqueue(c)
}
