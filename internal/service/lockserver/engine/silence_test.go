package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

// silence is a lockdb whose host vanishes while it is asked something, and is back for
// the next question: by then the key was released elsewhere, or the session is gone.
type silence struct {
	engine.Database // nothing else is asked of it

	// looking has it vanish at the first look, and not at the first question after
	// sessions.
	looking  bool
	vanished atomic.Bool
	released atomic.Bool
}

// vanish is a question that nobody answers, if it is the first of its kind.
func (s *silence) vanish(ctx context.Context) error {
	if s.vanished.Swap(true) {
		return nil
	}
	<-ctx.Done()
	return &lockstore.UnreachableError{Doing: "ask lockdb", Err: ctx.Err()}
}

func (s *silence) Exchange(_ context.Context, x postgres.Exchange) (postgres.ExchangeResult, error) {
	result := postgres.ExchangeResult{Acquires: make([]lockstore.AcquireResult, len(x.Acquires))}
	for i, params := range x.Acquires {
		if s.released.Load() {
			result.Acquires[i].Grant = lockstore.Grant{Key: params.Key, Owner: params.Owner, Session: params.Session, Token: 2, TTL: params.TTL}
		} else {
			result.Acquires[i].Err = &lockstore.HeldError{Key: params.Key, Owner: "first", Token: 1, Remaining: time.Hour}
		}
	}
	return result, nil
}

func (s *silence) Look(ctx context.Context, keys []string) (map[string]lockstore.Entry, error) {
	if s.looking {
		err := s.vanish(ctx)
		s.released.Store(err == nil)
		return nil, err
	}
	entries := map[string]lockstore.Entry{}
	for _, key := range keys {
		entries[key] = lockstore.Entry{Key: key, Owner: "first", Token: 1, Remaining: time.Hour}
	}
	return entries, nil
}

func (s *silence) LiveSessions(ctx context.Context, ids []lockstore.SessionID) (map[lockstore.SessionID]bool, error) {
	live := map[lockstore.SessionID]bool{}
	for _, id := range ids {
		live[id] = s.looking
	}
	if s.looking {
		return live, nil
	}
	return live, s.vanish(ctx)
}

// A look that nobody answers, on a connection that nobody closes, ends by itself: the
// next one finds what the waiters wait for, a release by another replica or the end of
// their session.
//
// Clauses: K-2.8, K-2.3
// Mutation: leave callTimeout out of lookAt, or out of lookAtSessions.
func TestLookThatNobodyAnswersEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looking bool
		want    error
	}{"at a key": {true, nil}, "at sessions": {false, lockstore.ErrSessionLost}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := start(t, &silence{looking: c.looking})
				params := lockstore.AcquireParams{Key: "k", Owner: "second", Session: "00000000-0000-4000-8000-000000000002", TTL: time.Minute}
				grant, err := e.Acquire(t.Context(), params, engine.Wait{Most: 10 * time.Minute})
				if !errors.Is(err, c.want) || c.want == nil && grant.Token != 2 {
					t.Errorf("the waiter is told %+v, %v; want %v", grant, err, c.want)
				}
			})
		})
	}
}
