package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// afterFailOver is a store as a client sees one: it answers the tries under the session of before with one
// answer after the other, the last for ever, and grants what it has to anybody else.
type afterFailOver struct {
	lockstore.Store

	mu      sync.Mutex
	before  []answer
	granted lockstore.Token
	tries   int
}

type answer struct {
	token lockstore.Token
	err   error
}

func (*afterFailOver) CreateSession(context.Context, string, time.Duration) (lockstore.Session, error) {
	return lockstore.Session{ID: "after"}, nil
}

func (s *afterFailOver) Acquire(_ context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if params.Session == "after" {
		return lockstore.Grant{Key: params.Key, Token: s.granted}, nil
	}
	s.tries++
	said := s.before[0]
	if len(s.before) > 1 {
		s.before = s.before[1:]
	}
	return lockstore.Grant{Key: params.Key, Token: said.token}, said.err
}

// Who asks goes on through refusals and through what the dead primary still grants, and opens a session
// when its own is void.
//
// Mutation: return the first grant whatever its token, or at an error; leave CreateSession out of try.
func TestFirstGrantAfterFailOver(t *testing.T) {
	t.Parallel()

	store := &afterFailOver{granted: 12, before: []answer{
		{err: errors.New("connection refused")}, {token: 7}, {err: &lockstore.GrantsClosedError{Reason: "promoted"}}, {err: lockstore.ErrSessionLost},
	}}
	ctx, cancel := context.WithTimeout(t.Context(), failOverWithin)
	defer cancel()
	at, err := (&asking{store: store, session: "before"}).firstGrant(ctx, 10)
	if err != nil || at.IsZero() {
		t.Fatal(at, err)
	}
	if store.tries < 4 {
		t.Errorf("granted at try %d, which was refused", store.tries)
	}
}

// Mutation: forget the last refusal.
func TestNoGrantAfterFailOver(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), 10*askEvery)
	defer cancel()
	store := &afterFailOver{before: []answer{{err: errors.New("no leader")}}}
	_, err := (&asking{store: store, session: "before"}).firstGrant(ctx, 0)
	if err == nil || !strings.Contains(err.Error(), "no leader") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
