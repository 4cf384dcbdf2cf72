package lockstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// heldByOthers is a store whose every key another holds for good.
type heldByOthers struct {
	lockstore.Store
	// until is when the waiter's session lapses.
	until time.Time
}

func (h *heldByOthers) Acquire(_ context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	return lockstore.Grant{}, &lockstore.HeldError{Key: p.Key, Owner: "alice", Token: 1}
}

func (h *heldByOthers) Show(_ context.Context, key string) (lockstore.Entry, error) {
	return lockstore.Entry{Key: key, Owner: "alice", Token: 1}, nil
}

func (h *heldByOthers) Heartbeat(_ context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	if id != "bob" || !time.Now().Before(h.until) {
		return lockstore.Session{}, lockstore.ErrSessionLost
	}
	h.until = time.Now().Add(ttl)
	return lockstore.Session{ID: id}, nil
}

// A wait sends its heartbeats in time, whether its session is shorter than the longest
// pause between two looks or longer than it.
//
// Clauses: K-2.8
// Mutation: leave keepAlive, or the bound of the pause by the session, out of sleep.
func TestWaitKeepsItsSessionAlive(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{lockstore.MinTTL, time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &heldByOthers{until: time.Now().Add(ttl)}
				_, err := lockstore.Wait(t.Context(), store, lockstore.WaitParams{
					AcquireParams: lockstore.AcquireParams{Key: "k", Owner: "bob", Session: "bob", TTL: time.Minute},
					Max:           time.Hour, SessionTTL: ttl,
				})
				if timeout := (*lockstore.WaitTimeoutError)(nil); !errors.As(err, &timeout) {
					t.Errorf("a wait for an hour: %v, want it to run out", err)
				}
				if !time.Now().Before(store.until) {
					t.Error("the session lapsed at the end of the wait")
				}
			})
		})
	}
}
