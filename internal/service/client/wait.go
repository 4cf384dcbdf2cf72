package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/lease"
)

// Wait acquires a lock as lockstore.Wait does, but stands in lock-server's own queue
// for the key, first come first served, instead of looking again and again (K-2.8). Who
// hangs up leaves the queue. It returns the same errors.
//
// The grant's promise is counted from a renewal when the wait was long: the request
// that was granted was sent before it (K-2.10).
func (l *Locks) Wait(ctx context.Context, params lockstore.WaitParams) (lockstore.Grant, error) {
	if params.Waiting != nil {
		grant, err := l.Acquire(ctx, params.AcquireParams)
		held, isHeld := errors.AsType[*lockstore.HeldError](err)
		if !isHeld {
			return grant, err
		}
		params.Waiting(held)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		if err := l.beat(ctx, params); err != nil {
			cancel(err)
		}
	}()
	grant, err := l.queue(ctx, params)
	lost := context.Cause(ctx)
	cancel(nil)
	<-beating
	switch {
	case err != nil && errors.Is(lost, lockstore.ErrSessionLost):
		return lockstore.Grant{}, lost // with it goes whatever was granted
	case err != nil:
		return lockstore.Grant{}, err
	case lease.Passed(grant.Sent, time.Now()) < params.TTL/10:
		return grant, nil
	}
	return l.refreshed(context.WithoutCancel(ctx), grant)
}

// mostQueued is the longest wait of one request; a longer one goes to the end of the
// queue again.
const mostQueued = 10 * time.Minute

// queue stands in the server's queue until the wait is over.
func (l *Locks) queue(ctx context.Context, params lockstore.WaitParams) (lockstore.Grant, error) {
	for began, left := time.Now(), params.Max; ; left = params.Max - time.Since(began) {
		grant, err := l.acquire(ctx, l.work, params.AcquireParams, max(min(left, mostQueued), 0))
		_, over := errors.AsType[*lockstore.WaitTimeoutError](err)
		switch {
		case !over || left <= mostQueued:
			return grant, err
		case ctx.Err() != nil: // nothing is held between two requests
			return lockstore.Grant{}, fmt.Errorf("wait for lock %q: %w", params.Key, context.Cause(ctx))
		}
	}
}

// refreshed is a grant whose promise is counted from now.
func (l *Locks) refreshed(ctx context.Context, grant lockstore.Grant) (lockstore.Grant, error) {
	renewed, err := l.Renew(ctx, grant.Key, grant.Token, grant.TTL)
	if errors.Is(err, lockstore.ErrLockLost) {
		return lockstore.Grant{}, err
	}
	if err != nil { // it is held, and for how long nobody can say
		return lockstore.Grant{}, &lockstore.UnknownOutcomeError{Doing: fmt.Sprintf("acquire lock %q", grant.Key), Err: err}
	}
	grant.Sent, grant.ExpiresAt = renewed.Sent, renewed.ExpiresAt
	return grant, nil
}

// beat keeps the session alive until ctx ends; lockstore.ErrSessionLost ends the wait,
// another error is left to the next heartbeat.
func (l *Locks) beat(ctx context.Context, params lockstore.WaitParams) error {
	if params.SessionTTL <= 0 {
		return nil
	}
	for lockstore.Pause(ctx, params.SessionTTL/3) == nil {
		if _, err := l.Heartbeat(ctx, params.Session, params.SessionTTL); errors.Is(err, lockstore.ErrSessionLost) {
			return err
		}
	}
	return nil
}
