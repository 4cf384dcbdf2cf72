package lockserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// defaultMostWait bounds a wait for a lock.
const defaultMostWait = 10 * time.Minute

// reader is what reads of the store need.
type reader = Backend

// Service is lock-server without its frame.
type Service struct {
	opts    Options
	log     *slog.Logger
	metrics *telemetry.LockMetrics
	link    *link
	engine  *engine.Engine
	watch   *hub
	once    *once

	// sessions and grants remember whose they are.
	sessions *memory[lockstore.SessionID]
	grants   *memory[lockstore.GrantRef]
	// keeps, changes and reads bound how many connections each kind takes.
	keeps, changes, reads chan struct{}
}

// New makes a lock-server; nothing is asked of the store before Run. It refuses
// options that do not say where the floor of K-7.6 comes from.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.MostWait <= 0 {
		opts.MostWait = defaultMostWait
	}
	s := &Service{
		opts: opts, log: opts.Log, metrics: opts.Metrics.Locks(), link: newLink(opts), once: newOnce(),
		sessions: newMemory[lockstore.SessionID](), grants: newMemory[lockstore.GrantRef](),
		keeps: make(chan struct{}, mostKeeps), changes: make(chan struct{}, mostChanges), reads: make(chan struct{}, mostReads),
	}
	s.watch = newHub(s)
	return s, nil
}

// Register puts the operations on the API of a frame.
func (s *Service) Register(api huma.API) {
	s.registerSessions(api)
	s.registerLocks(api)
	s.registerBatches(api)
	s.registerLooks(api)
	s.registerOperator(api)
	s.registerAudit(api)
}

// Ready is for httpd.Options: the conditions of lockdb, of the grants and of the
// floor, looked at now.
func (s *Service) Ready(ctx context.Context) []httpd.Condition {
	conditions := s.link.conditions(ctx)
	if conditions[0].State == httpd.Good {
		conditions[0].Database = s.database(ctx)
	}
	return conditions
}

// database is the lockdb that is served, nil for another backend and while it cannot be
// asked.
func (s *Service) database(ctx context.Context) *httpd.Database {
	store, err := s.link.store()
	if err != nil {
		return nil
	}
	lockdb, is := store.(interface {
		Identity(ctx context.Context) (string, error)
	})
	if !is {
		return nil
	}
	id, err := lockdb.Identity(ctx)
	if err != nil {
		s.link.Failed(err)
		return nil
	}
	return &httpd.Database{Identity: id, MinSchema: postgres.MinSchema, MaxSchema: postgres.MaxSchema}
}

// Run opens lockdb, and opens it anew when it was away, reaps, and carries out what
// is asked for, while serve serves the API. When serve returns, what is queued is
// carried out before Run does. serve gets a context that ends when ctx does.
func (s *Service) Run(ctx context.Context, serve func(context.Context) error) error {
	// What was accepted is carried out while serve drains, after ctx has ended.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.engine = engine.New(life, s.link, s.log, observer{s.metrics})
	background, stop := context.WithCancel(life)
	var around sync.WaitGroup
	around.Go(func() { s.reap(background) })
	around.Go(func() { s.watch.run(background) })
	var link, working sync.WaitGroup
	link.Go(func() { s.link.run(life) })
	if s.opts.Rescue != nil {
		link.Go(func() { s.link.rescues(life) })
	}
	working.Go(s.engine.Run)
	err := serve(ctx)
	stop()
	around.Wait()
	s.engine.Close()
	working.Wait()
	end()
	link.Wait()
	return err
}

// keeping lends the store for what keeps a holder: a renewal, a heartbeat, and the look
// at whose it is. Nothing else takes those places.
func (s *Service) keeping(ctx context.Context, do func(context.Context, Backend) error) error {
	return s.lend(ctx, s.keeps, changeTimeout, do)
}

// changing lends the store for another change, to so many callers at once.
func (s *Service) changing(ctx context.Context, do func(context.Context, Backend) error) error {
	return s.lend(ctx, s.changes, changeTimeout, do)
}

// reading lends the store for a read.
func (s *Service) reading(ctx context.Context, do func(context.Context, reader) error) error {
	return s.lend(ctx, s.reads, readTimeout, do)
}

// lend waits for a place, and lends the store for one call, which has so long.
func (s *Service) lend(ctx context.Context, places chan struct{}, most time.Duration, do func(context.Context, Backend) error) error {
	store, err := s.link.store()
	if err != nil {
		return err
	}
	ctx, cancel := s.opts.within(ctx, most)
	defer cancel()
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return &lockstore.UnreachableError{Doing: "wait for a connection to " + s.opts.name(), Err: context.Cause(ctx)}
	}
	defer func() { <-places }()
	err = do(ctx, store)
	s.link.Failed(err)
	return err
}

// refusal is an error as a caller is told it.
func (s *Service) refusal(err error) error {
	if errors.Is(err, engine.ErrDraining) {
		return problem.New(http.StatusServiceUnavailable, problem.Draining, err.Error()).WithRetryAfter(time.Second)
	}
	return lockapi.Problem(s.link.outward(err))
}

// refusedGrant is refusal for a lock that was asked for: it counts why.
func (s *Service) refusedGrant(err error) error {
	p := s.refusal(err)
	if refused, ok := problem.From(p); ok && refused.Status == http.StatusServiceUnavailable {
		s.metrics.Refused.WithLabelValues(refused.Code).Inc()
	}
	return p
}

// operation names an operation, and who may call it.
func operation(id, summary string, anyOf ...httpd.Scope) func(*huma.Operation) {
	require := httpd.Require(anyOf...)
	return func(op *huma.Operation) {
		op.OperationID, op.Summary = id, summary
		require(op)
	}
}

// body is a request or an answer that is all body.
type body[T any] struct{ Body T }

// tokenFrom reads one of the two forms in which a body names a token.
func tokenFrom(token lockstore.Token, text string) (lockstore.Token, error) {
	if text == "" {
		return token, lockstore.ValidToken(token)
	}
	parsed, err := lockstore.ParseToken(text)
	if err == nil && token != 0 && token != parsed {
		err = fmt.Errorf("%w: token %s and token_str %s differ; give one of them", lockstore.ErrInvalid, token, parsed)
	}
	return parsed, err
}
