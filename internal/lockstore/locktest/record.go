package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Recorder writes down what clients ask and are told.
type Recorder struct {
	started time.Time
	mu      sync.Mutex
	history History
	clients int
	// heard is told of each operation, under the recorder's lock.
	heard func(Op)
}

// NewRecorder begins an empty history; its clock starts now.
func NewRecorder() *Recorder { return &Recorder{started: time.Now(), heard: func(Op) {}} }

// History is what has been recorded so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(History{}, r.history...)
}

// Actor makes a client that records what it does. Session is empty for a backend
// without sessions.
func (r *Recorder) Actor(store lockstore.Store, owner string, session lockstore.SessionID) *Actor {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients++
	return &Actor{Store: store, Owner: owner, Session: session, id: r.clients - 1, record: r}
}

func (r *Recorder) now() int64 { return int64(time.Since(r.started)) }

func (r *Recorder) add(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, o)
	r.heard(o)
}

// Actor is one client that records what it does. Its methods return an error
// only when no client may be told so, and lockstore.ErrSessionLost.
type Actor struct {
	Store   lockstore.Store
	Owner   string
	Session lockstore.SessionID
	// SessionTrust, when set, is until when the session may be relied on; a grant is
	// worth no more than its session (K-2.10).
	SessionTrust time.Time
	id           int
	record       *Recorder
	// away tells that the backend could not be reached, or was blocked, last time.
	away bool
}

func (a *Actor) op(kind Kind, key string) Op {
	return Op{Client: a.id, Kind: kind, Key: key, Call: a.record.now()}
}

// Acquire returns the grant, or the one that stands in the way as far as it is
// told; both are zero when the outcome is not known.
func (a *Actor) Acquire(ctx context.Context, key string, ttl time.Duration) (grant, held lockstore.GrantRef, err error) {
	o := a.op(Acquire, key)
	o.Owner, o.Session, o.TTL = a.Owner, a.Session, ttl.Microseconds()
	got, err := a.Store.Acquire(ctx, lockstore.AcquireParams{Key: key, Owner: a.Owner, Session: a.Session, TTL: ttl})
	refused, isHeld := errors.AsType[*lockstore.HeldError](err)
	switch {
	case isHeld:
		held, err = lockstore.GrantRef{Key: key, Token: refused.Token}, nil
		o.Result = Held
	case err == nil:
		grant = lockstore.GrantRef{Key: key, Token: got.Token}
		o.Result = OK
		o.Answer = Answer{Token: got.Token, Owner: got.Owner, Session: got.Session, Acquired: micros(got.AcquiredAt), Expires: micros(got.ExpiresAt)}
		trust := got.TrustedUntil()
		if !a.SessionTrust.IsZero() && a.SessionTrust.Before(trust) {
			trust = a.SessionTrust
		}
		o.Trust = int64(trust.Sub(a.record.started))
	}
	return grant, held, a.done(ctx, o, err)
}

// Renew tells whether the grant is still the caller's; one whose answer was lost
// is not.
func (a *Actor) Renew(ctx context.Context, grant lockstore.GrantRef, ttl time.Duration) (bool, error) {
	o := a.op(Renew, grant.Key)
	o.Token, o.TTL = grant.Token, ttl.Microseconds()
	got, err := a.Store.Renew(ctx, grant.Key, grant.Token, ttl)
	switch {
	case errors.Is(err, lockstore.ErrLockLost):
		o.Result, err = Lost, nil
	case err == nil:
		o.Result = OK
		o.Answer = Answer{Token: got.Token, Expires: micros(got.ExpiresAt)}
		o.Trust = int64(got.TrustedUntil().Sub(a.record.started))
	}
	err = a.done(ctx, o, err)
	return err == nil && o.Result == OK, err
}

// Release gives a grant back, or finds that it was no longer there.
func (a *Actor) Release(ctx context.Context, grant lockstore.GrantRef) error {
	o := a.op(Release, grant.Key)
	o.Token = grant.Token
	got, err := a.Store.Release(ctx, grant.Key, grant.Token)
	o.Result = OK
	if got.Stale {
		o.Result = Stale
	}
	return a.done(ctx, o, err)
}

// Revoke takes a grant from its holder.
func (a *Actor) Revoke(ctx context.Context, grant lockstore.GrantRef) error {
	o := a.op(Revoke, grant.Key)
	o.Token = grant.Token
	got, err := a.Store.Revoke(ctx, lockstore.RevokeParams{Key: grant.Key, Token: grant.Token, Operator: "operator", Reason: "a test"})
	switch got.Outcome {
	case lockstore.Revoked:
		o.Result = OK
	case lockstore.NotHeld:
		o.Result = NotHeld
	case lockstore.TokenMoved:
		o.Result = Moved
	}
	o.Answer = Answer{Token: got.Token, Owner: got.Owner}
	return a.done(ctx, o, err)
}

// Show looks at a key.
func (a *Actor) Show(ctx context.Context, key string) error {
	o := a.op(Show, key)
	entry, err := a.Store.Show(ctx, key)
	switch {
	case errors.Is(err, lockstore.ErrNotFound):
		o.Result, err = NotFound, nil
	case err == nil:
		o.Result = OK
		o.Answer = Answer{
			Token: entry.Token, Owner: entry.Owner, Session: entry.Session, Acquired: micros(entry.AcquiredAt), Expires: micros(entry.ExpiresAt),
			Now: clockOf(entry), Expired: entry.Expired,
		}
	}
	return a.done(ctx, o, err)
}

// done records what became of an operation: an answer, or that it is not known,
// or that it was certainly not done.
func (a *Actor) done(ctx context.Context, o Op, err error) error {
	o.Return = a.record.now()
	_, blocked := errors.AsType[*lockstore.BlockedError](err)
	a.away = away(err) || blocked
	switch {
	case err == nil:
	case o.Kind == Show && a.away:
		a.away = true
		return nil // a look that failed changed nothing and tells nothing
	case unknown(err), ctx.Err() != nil:
		o.Result, o.Answer = Unknown, Answer{} // stopped in the middle, nobody knows either
		err = nil
	case a.away:
		o.Result, o.Answer = Failed, Answer{}
		err = nil
	case errors.Is(err, lockstore.ErrSessionLost):
		o.Result = Failed
	default:
		return fmt.Errorf("%s: %w", op{Op: o}, err)
	}
	a.record.add(o)
	return err
}

func unknown(err error) bool {
	_, ok := errors.AsType[*lockstore.UnknownOutcomeError](err)
	return ok
}

// away tells whether the backend could not be reached, or an answer was lost.
func away(err error) bool {
	_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	return unreachable || unknown(err)
}
