package lockserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/lease"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

const (
	// onceFor is how long an idempotency key is remembered by the replica that saw
	// it: for as long as a client retries.
	onceFor = 10 * time.Minute
	// mostOnce bounds how many are.
	mostOnce = 10000
	// mostKeyBytes bounds one.
	mostKeyBytes = 255
)

// once gives the same session to every request with the same idempotency key.
type once struct {
	mu    sync.Mutex
	known map[onceKey]*onceSession
	order []onceKey
}

type onceKey struct{ caller, key string }

type onceSession struct {
	owner   string
	ttl     time.Duration
	until   time.Time
	made    chan struct{} // closed when session and err are there
	session lockstore.Session
	err     error
}

func newOnce() *once { return &once{known: map[onceKey]*onceSession{}} }

// do makes a session, or returns the one that was made under the key. What failed
// is forgotten, so that a retry may succeed. Under a key it is made whoever hangs up:
// that is who asks again.
func (o *once) do(ctx context.Context, caller, key, owner string, ttl time.Duration, create func(context.Context) (lockstore.Session, error)) (lockstore.Session, error) {
	if key == "" {
		return create(ctx)
	}
	if len(key) > mostKeyBytes {
		return lockstore.Session{}, problem.Newf(http.StatusBadRequest, problem.InvalidArgument, "the idempotency key has %d bytes; give at most %d", len(key), mostKeyBytes)
	}
	id := onceKey{caller, key}
	o.mu.Lock()
	o.forget()
	made, known := o.known[id]
	if !known {
		made = &onceSession{owner: owner, ttl: ttl, until: time.Now().Add(onceFor), made: make(chan struct{})}
		o.known[id] = made
		o.order = append(o.order, id)
	}
	o.mu.Unlock()
	if known {
		return made.await(ctx, owner, ttl)
	}
	made.session, made.err = create(context.WithoutCancel(ctx))
	if made.err != nil {
		o.mu.Lock()
		if o.known[id] == made {
			delete(o.known, id)
		}
		o.mu.Unlock()
	}
	close(made.made)
	return made.session, made.err
}

func (m *onceSession) await(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	if m.owner != owner || m.ttl != ttl {
		return lockstore.Session{}, problem.New(http.StatusConflict, problem.IdempotencyConflict, "the idempotency key was used for another session: another owner or ttl_ms")
	}
	select {
	case <-m.made:
		return m.again(), m.err
	case <-ctx.Done():
		return lockstore.Session{}, &lockstore.UnknownOutcomeError{Doing: "create session", Err: context.Cause(ctx)}
	}
}

// again is the session for a request that came after the one that made it: less of it
// is left, for the client counts what is left from its last request (K-2.10).
func (m *onceSession) again() lockstore.Session {
	session := m.session
	session.Remaining = max(0, lease.Promise{Sent: session.Sent, TTL: session.Remaining}.Left(time.Now()))
	return session
}

// forget drops what is old, and the oldest where there are too many.
func (o *once) forget() {
	now := time.Now()
	for len(o.order) > 0 {
		oldest := o.known[o.order[0]]
		if oldest != nil && len(o.order) < mostOnce && now.Before(oldest.until) {
			return
		}
		delete(o.known, o.order[0])
		o.order = o.order[1:]
	}
}
