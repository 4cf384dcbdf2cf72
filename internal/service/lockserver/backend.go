package lockserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

// Backend is the store that a lock-server serves.
type Backend interface {
	Single
	engine.Database
}

// Single is a store that carries out one call at a time.
type Single interface {
	lockstore.Store
	// CheckGrants asks again what opening it for granting asks, and returns what that
	// does: *lockstore.GrantsClosedError and *lockstore.UnsafeError when it answers and
	// grants nothing.
	CheckGrants(ctx context.Context) error
}

// OneByOne makes a Backend of a store without batches: what the engine puts together
// goes out call by call, side by side, each key's in order. What is gained by one
// commit for many is the backend's own business there.
func OneByOne(store Single) Backend { return &oneByOne{store} }

type oneByOne struct{ Single }

// Exchange implements engine.Database. It is no transaction: each answer is its
// call's own. An error is about all of it: nobody answered, and nothing was done.
func (s *oneByOne) Exchange(ctx context.Context, x postgres.Exchange) (postgres.ExchangeResult, error) {
	result := postgres.ExchangeResult{
		Releases: make([]postgres.ReleaseResult, len(x.Releases)), Acquires: make([]lockstore.AcquireResult, len(x.Acquires)), Runs: 1,
	}
	// A key that is in both is released first.
	steps := make(map[string][]func(), len(x.Releases)+len(x.Acquires))
	for i, ref := range x.Releases {
		steps[ref.Key] = append(steps[ref.Key], func() { result.Releases[i] = s.release(ctx, ref) })
	}
	for i, params := range x.Acquires {
		steps[params.Key] = append(steps[params.Key], func() {
			grant, err := s.Acquire(ctx, params)
			result.Acquires[i] = lockstore.AcquireResult{Grant: grant, Err: err}
		})
	}
	var keys sync.WaitGroup
	for _, calls := range steps {
		keys.Go(func() {
			for _, call := range calls {
				call()
			}
		})
	}
	keys.Wait()
	return result, nobodyAnswered(result)
}

// release gives one grant back. One whose answer was lost is asked for again: it can
// only ever delete its own token's entry (K-2.7), so that finding that is an answer.
func (s *oneByOne) release(ctx context.Context, ref lockstore.GrantRef) postgres.ReleaseResult {
	released, err := s.Release(ctx, ref.Key, ref.Token)
	if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); unknown {
		if again, againErr := s.Release(ctx, ref.Key, ref.Token); againErr == nil && !again.Stale {
			return postgres.ReleaseResult{Release: again}
		}
	}
	return postgres.ReleaseResult{Release: released, Err: err}
}

// nobodyAnswered is the error of calls of which none came through, so that the link
// is told at once; nil otherwise.
func nobodyAnswered(result postgres.ExchangeResult) error {
	errs := make([]error, 0, len(result.Releases)+len(result.Acquires))
	for _, r := range result.Releases {
		errs = append(errs, r.Err)
	}
	for _, a := range result.Acquires {
		errs = append(errs, a.Err)
	}
	for _, err := range errs {
		if _, unreachable := errors.AsType[*lockstore.UnreachableError](err); !unreachable {
			return nil
		}
	}
	return errors.Join(errs[:min(len(errs), 1)]...)
}

// mostShown is up to how many keys are shown one by one; for more, all are listed.
const mostShown = 32

// Look implements engine.Database. Of no keys it asks only whether anybody answers.
func (s *oneByOne) Look(ctx context.Context, keys []string) (map[string]lockstore.Entry, error) {
	if len(keys) == 0 || len(keys) > mostShown {
		filter := lockstore.Filter{}
		if len(keys) == 0 {
			filter.Limit = 1
		}
		return s.listed(ctx, keys, filter)
	}
	entries, errs := make([]lockstore.Entry, len(keys)), make([]error, len(keys))
	var looks sync.WaitGroup
	for i, key := range keys {
		looks.Go(func() { entries[i], errs[i] = s.Show(ctx, key) })
	}
	looks.Wait()
	found := make(map[string]lockstore.Entry, len(keys))
	for i, key := range keys {
		switch {
		case errs[i] == nil:
			found[key] = entries[i]
		case !errors.Is(errs[i], lockstore.ErrNotFound):
			return nil, errs[i]
		}
	}
	return found, nil
}

func (s *oneByOne) listed(ctx context.Context, keys []string, filter lockstore.Filter) (map[string]lockstore.Entry, error) {
	all, err := s.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	found := make(map[string]lockstore.Entry, len(keys))
	for _, entry := range all {
		if wanted[entry.Key] {
			found[entry.Key] = entry
		}
	}
	return found, nil
}

// LiveSessions implements engine.Database.
func (s *oneByOne) LiveSessions(ctx context.Context, ids []lockstore.SessionID) (map[lockstore.SessionID]bool, error) {
	live := make(map[lockstore.SessionID]bool, len(ids))
	for _, id := range ids {
		session, err := s.Session(ctx, id)
		switch {
		case err == nil:
			live[id] = session.Remaining > 0 || session.ExpiresAt.Infinite
		case errors.Is(err, lockstore.ErrNotFound):
			live[id] = false
		default:
			return nil, err
		}
	}
	return live, nil
}

// Pulse implements lockstore.Meter where the store is one.
func (s *oneByOne) Pulse(ctx context.Context, since lockstore.Token) (lockstore.Pulse, error) {
	meter, is := s.Single.(lockstore.Meter)
	if !is {
		return lockstore.Pulse{}, fmt.Errorf("count grants: %w", lockstore.ErrUnsupported)
	}
	return meter.Pulse(ctx, since)
}
