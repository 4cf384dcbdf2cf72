package lockserver_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// between is a lockdb with something in between.
type between struct {
	*postgres.Store

	// prune, list and grants, when set, are called in place of the store's, and create
	// before it.
	prune, list, grants, create func(context.Context) error
	closed                      func()
}

func (b *between) CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	if b.create != nil {
		if err := b.create(ctx); err != nil {
			return lockstore.Session{}, err
		}
	}
	return b.Store.CreateSession(ctx, owner, ttl)
}

func (b *between) Prune(ctx context.Context, age time.Duration, limit int) ([]lockstore.Entry, error) {
	if b.prune != nil {
		return nil, b.prune(ctx)
	}
	return b.Store.Prune(ctx, age, limit)
}

func (b *between) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	if b.list != nil {
		return nil, b.list(ctx)
	}
	return b.Store.List(ctx, filter)
}

func (b *between) CheckGrants(ctx context.Context) error {
	if b.grants != nil {
		if err := b.grants(ctx); err != nil {
			return err
		}
	}
	return b.Store.CheckGrants(ctx)
}

func (b *between) Close() {
	b.Store.Close()
	if b.closed != nil {
		b.closed()
	}
}

// through are the options of a lock-server on a lockdb with something in between.
func through(t *testing.T, b between) lockserver.Options {
	t.Helper()
	config := pgtest.Migrated(t, 16).Lock.Config(t, "t_lockapp")
	opts := options(nil)
	opts.Name = "lockdb"
	opts.Open = func(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (lockserver.Backend, error) {
		store, err := postgres.Open(ctx, postgres.Options{Config: config, AllowSameInstance: true, Purpose: postgres.Changing, MaxConns: 20, PayHighest: highest})
		if err != nil {
			return nil, err
		}
		opened := b
		opened.Store = store
		return &opened, nil
	}
	return opts
}

// patience is more than anything here takes that is not held up.
const patience = 30 * time.Second

// Changes that hang, as many as are made at once, hold up no renewal and no heartbeat.
//
// Clauses: K-2.10
// Mutation: lend renewals and heartbeats the places of changes.
func TestRenewalsHaveTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	entered, free := make(chan struct{}, 100), make(chan struct{})
	opts := through(t, between{prune: func(context.Context) error {
		entered <- struct{}{}
		<-free
		return nil
	}})
	s := serve(t, opts, "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	grant := c.acquire(t, "k", session)
	var pruning sync.WaitGroup
	defer pruning.Wait()
	defer close(free)
	for range 2 * lockserver.MostChanges {
		pruning.Go(func() {
			response, err := c.send(context.WithoutCancel(t.Context()), t, http.MethodPost, "/v1/locks/prune", lockapi.PruneRequest{OlderThanMS: 1, Limit: 1})
			if err == nil {
				response.Body.Close()
			}
		})
	}
	for range lockserver.MostChanges {
		<-entered
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if a := c.doIn(ctx, t, http.MethodPost, "/v1/locks/renew", lockapi.RenewRequest{Key: "k", TTLMS: 60_000}, lockapi.TokenHeader, grant.TokenStr); a.status != http.StatusOK {
		t.Errorf("renew: %d %s", a.status, a.body)
	}
	if a := c.doIn(ctx, t, http.MethodPost, "/v1/sessions/heartbeat", lockapi.HeartbeatRequest{SessionID: session.SessionID, TTLMS: 60_000}); a.status != http.StatusOK {
		t.Errorf("heartbeat: %d %s", a.status, a.body)
	}
}

// A store that does not answer, and does not hang up either, is given up after a time,
// though its caller would wait for ever.
//
// Mutation: leave within out of lend.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	opts := through(t, between{list: func(ctx context.Context) error {
		<-ctx.Done()
		return &lockstore.UnreachableError{Doing: "list locks", Err: ctx.Err()}
	}})
	opts.Timeout = 200 * time.Millisecond
	c := caller{serve(t, opts, "").ready(t), ""}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if a := c.doIn(ctx, t, http.MethodGet, "/v1/locks", nil); a.status != http.StatusServiceUnavailable || a.problem().Code != "unreachable" {
		t.Errorf("list: %d %s", a.status, a.body)
	}
}

// A store that was opened and cannot be used is closed again, each time.
//
// Mutation: leave opened.Close out of look.
func TestStoreThatIsNotTakenIsClosed(t *testing.T) {
	t.Parallel()
	var asked, opened, closed atomic.Int64
	opts := through(t, between{
		closed: func() { closed.Add(1) },
		grants: func(context.Context) error {
			if asked.Add(1) <= 2 {
				return &lockstore.UnreachableError{Doing: "look", Err: errors.New("it went away")}
			}
			return nil
		},
	})
	open := opts.Open
	opts.Open = func(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (lockserver.Backend, error) {
		store, err := open(ctx, highest)
		if err == nil {
			opened.Add(1)
		}
		return store, err
	}
	serve(t, opts, "").ready(t)
	pgtest.Eventually(t, "all but the one in use are closed", func(context.Context) (bool, error) {
		closed := closed.Load()
		return closed >= 2 && closed == opened.Load()-1, nil
	})
}

// hurried marks the looks of somebody who has no time.
type hurried struct{}

// Whoever asks for readiness and has no time to hear it is told that nobody knows, and
// takes the store from nobody: it is granted through as before.
//
// Mutation: let check take down what a look says whose context has ended.
func TestReadinessInAHurry(t *testing.T) {
	t.Parallel()
	s := serve(t, through(t, between{grants: func(ctx context.Context) error {
		if ctx.Value(hurried{}) == nil {
			return nil
		}
		<-ctx.Done()
		return &lockstore.UnreachableError{Doing: "look", Err: ctx.Err()}
	}}), "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), hurried{}, true), 50*time.Millisecond)
	defer cancel()
	if lockdb := s.service.Ready(ctx)[0]; lockdb.State != httpd.Failed {
		t.Errorf("it is said to be %+v", lockdb)
	}
	if code := c.tryAcquire(t, "k", session); code != "" {
		t.Errorf("after that a lock is refused: %s", code)
	}
}

// Where lockdb is, is told to nobody, and what is unknown stays so.
//
// Clauses: K-2.9
// Mutation: look for pgconn.ConnectError alone in outward.
func TestAddressesAreKept(t *testing.T) {
	t.Parallel()
	cut := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 5432}, Err: errors.New("connection reset by peer")}
	for _, err := range []error{&lockstore.UnknownOutcomeError{Doing: "acquire", Err: cut}, &lockstore.UnreachableError{Doing: "list locks", Err: cut}, cut} {
		told := lockserver.Outward(err)
		_, was := errors.AsType[*lockstore.UnknownOutcomeError](err)
		_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](told)
		_, unreachable := errors.AsType[*lockstore.UnreachableError](told)
		if strings.Contains(told.Error(), "10.1.2.3") || unknown != was || unreachable == was {
			t.Errorf("%v is told as %v (%T)", err, told, told)
		}
	}
}

// A session that is asked for again under its key, while it is still being made, is
// answered though who asked first has hung up: that is who asks again.
//
// Clauses: K-2.9
// Mutation: make the session under the context of its first caller.
func TestSessionIsMadeWhoeverHangsUp(t *testing.T) {
	t.Parallel()
	entered, cut, free := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	s := serve(t, through(t, between{create: func(ctx context.Context) error {
		entered <- struct{}{}
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			close(cut)
			return &lockstore.UnknownOutcomeError{Doing: "create session", Err: ctx.Err()}
		}
	}}), "").ready(t)
	c := caller{s, ""}
	create := func(ctx context.Context) (*http.Response, error) {
		return c.send(ctx, t, http.MethodPost, "/v1/sessions", lockapi.CreateSessionRequest{Owner: "w", TTLMS: 60_000}, lockapi.IdempotencyHeader, "retry-1")
	}
	ctx, hangUp := context.WithCancel(t.Context())
	gone, again := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(gone)
		if response, err := create(ctx); err == nil {
			response.Body.Close()
		}
	}()
	<-entered
	go func() {
		status := 0
		if response, err := create(context.WithoutCancel(t.Context())); err == nil {
			status = response.StatusCode
			response.Body.Close()
		}
		again <- status
	}()
	pgtest.Eventually(t, "both are there", func(ctx context.Context) (bool, error) {
		return strings.Contains(string(c.doIn(ctx, t, http.MethodGet, "/metrics", nil).body), "dlockctl_requests_in_flight 3"), nil
	})
	hangUp()
	<-gone
	select {
	case <-cut:
		t.Error("the session was given up with the caller who asked for it first")
	case <-time.After(500 * time.Millisecond): // the server has heard of it by then
	}
	close(free)
	if status := <-again; status != http.StatusCreated {
		t.Errorf("who asked again is answered %d", status)
	}
	if len(entered) > 0 {
		t.Error("the session was made twice")
	}
}
