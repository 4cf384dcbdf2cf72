package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Holder is the lock service as a job needs it. Its errors are those of package
// lockstore. It is used by one goroutine at a time, so one connection is enough.
type Holder interface {
	// CreateSession, Heartbeat, EndSession, Renew and Release are those of
	// [lockstore.Store].
	CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error)
	Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error)
	EndSession(ctx context.Context, id lockstore.SessionID) (int, error)
	Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error)
	Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error)

	// Wait acquires as [lockstore.Wait] does; with Max 0 it tries once, and
	// answers *lockstore.HeldError or *lockstore.BlockedError. It calls sending
	// before each request that may be granted: the lease is counted from there.
	Wait(ctx context.Context, params lockstore.WaitParams, sending func()) (lockstore.Grant, error)
	// Ending tells how a grant came to its end, for the message; the zero Ending
	// when nothing is known.
	Ending(ctx context.Context, key string, token lockstore.Token) (Ending, error)
}

// Ending is how a grant ended otherwise than by its holder.
type Ending struct {
	// How is the journal's word: revoked, expired, taken_over, re_entered,
	// reaped, voided, released; "" when it is not known.
	How string
	// Revocation is the audit row, when an operator did it.
	Revocation *lockstore.Revocation
}

// OnStore is the holder on a lock store: a backend, or a client of lock-server.
func OnStore(store lockstore.Store) Holder {
	if store.Capabilities().Sessions {
		return storeHolder{store}
	}
	return bareHolder{storeHolder{store}}
}

// bareHolder is the holder on a store without sessions: the lock hangs on its own
// lease, and there is nothing to keep alive beside it. A session that was given is
// the store's to refuse.
type bareHolder struct{ storeHolder }

// CreateSession implements Holder: there is none.
func (bareHolder) CreateSession(context.Context, string, time.Duration) (lockstore.Session, error) {
	return lockstore.Session{}, nil
}

// Heartbeat implements Holder.
func (h bareHolder) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	if id == "" {
		return lockstore.Session{}, nil
	}
	return h.Store.Heartbeat(ctx, id, ttl)
}

// EndSession implements Holder.
func (h bareHolder) EndSession(ctx context.Context, id lockstore.SessionID) (int, error) {
	if id == "" {
		return 0, nil
	}
	return h.Store.EndSession(ctx, id)
}

// Wait implements Holder: a wait that nothing re-enters keeps no session alive.
func (h bareHolder) Wait(ctx context.Context, params lockstore.WaitParams, sending func()) (lockstore.Grant, error) {
	params.SessionTTL = 0
	return h.storeHolder.Wait(ctx, params, sending)
}

type storeHolder struct{ lockstore.Store }

// waiter is a store that waits in a queue of its own, as lock-server does.
type waiter interface {
	Wait(ctx context.Context, params lockstore.WaitParams) (lockstore.Grant, error)
}

// Wait implements Holder. What a store's own queue grants is counted from before
// the wait, and so renewed before the command begins.
func (h storeHolder) Wait(ctx context.Context, params lockstore.WaitParams, sending func()) (lockstore.Grant, error) {
	telling := tellingStore{h.Store, sending}
	queue, own := h.Store.(waiter)
	switch {
	case params.Max == 0:
		return telling.Acquire(ctx, params.AcquireParams)
	case own:
		sending()
		return queue.Wait(ctx, params)
	default:
		return lockstore.Wait(ctx, telling, params)
	}
}

// tellingStore says when a request that may be granted is about to leave.
type tellingStore struct {
	lockstore.Store
	sending func()
}

// Acquire implements lockstore.Store.
func (s tellingStore) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	s.sending()
	return s.Store.Acquire(ctx, params)
}

// newestRevocations bounds the look into the audit: the row is of a moment ago.
const newestRevocations = 100

// Ending implements Holder: the audit first, since it names the operator.
func (h storeHolder) Ending(ctx context.Context, key string, token lockstore.Token) (Ending, error) {
	revocations, err := h.Revocations(ctx, lockstore.RevocationFilter{Key: key, Limit: newestRevocations})
	if err != nil {
		return Ending{}, fmt.Errorf("look for a revocation: %w", err)
	}
	for _, row := range revocations {
		if row.PrevToken == token {
			return Ending{How: "revoked", Revocation: &row}, nil
		}
	}
	if !h.Capabilities().Journal {
		return Ending{}, nil
	}
	record, err := h.GrantHistory(ctx, token)
	if errors.Is(err, lockstore.ErrNotFound) {
		return Ending{}, nil
	}
	if err != nil {
		return Ending{}, fmt.Errorf("look into the grant journal: %w", err)
	}
	return Ending{How: record.Ended}, nil
}
