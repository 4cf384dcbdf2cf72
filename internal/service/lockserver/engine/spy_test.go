package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// spy stands before a store, and writes down what an engine asks of it.
type spy struct {
	*postgres.Store

	mu sync.Mutex
	// batches is how many keys each exchange had, most how many were under way.
	batches   []int
	underWay  map[string]bool
	now, most int
	wrong     []error
	// before and after, when set, are called around each exchange; an error of
	// theirs is its answer.
	before, after func(postgres.Exchange) error
	// blind has the next look find every key free, as one that another took since.
	blind atomic.Bool
	// brink has each look find every lease at its last millisecond, as etcd tells of one
	// that is over and has not been ended yet. looks counts them.
	brink atomic.Bool
	looks atomic.Int64
}

func newSpy(store *postgres.Store) *spy { return &spy{Store: store, underWay: map[string]bool{}} }

func (s *spy) Exchange(ctx context.Context, x postgres.Exchange) (postgres.ExchangeResult, error) {
	keys := s.begin(x)
	defer s.end(keys)
	if s.before != nil {
		if err := s.before(x); err != nil {
			return postgres.ExchangeResult{}, err
		}
	}
	result, err := s.Store.Exchange(ctx, x)
	if s.after != nil && err == nil {
		if err := s.after(x); err != nil {
			return postgres.ExchangeResult{}, err
		}
	}
	return result, err
}

func (s *spy) Look(ctx context.Context, keys []string) (map[string]lockstore.Entry, error) {
	if s.blind.CompareAndSwap(true, false) {
		return map[string]lockstore.Entry{}, nil
	}
	s.looks.Add(1)
	entries, err := s.Store.Look(ctx, keys)
	if s.brink.Load() {
		for key, entry := range entries {
			entry.Remaining = time.Millisecond
			entries[key] = entry
		}
	}
	return entries, err
}

// begin notes the keys, and that none of them is twice in it or under way already.
func (s *spy) begin(x postgres.Exchange) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, acquired := map[string]bool{}, map[string]bool{}
	for _, ref := range x.Releases {
		if keys[ref.Key] {
			s.wrong = append(s.wrong, fmt.Errorf("%s is released twice in one batch", ref.Key))
		}
		keys[ref.Key] = true
	}
	for _, p := range x.Acquires {
		if acquired[p.Key] {
			s.wrong = append(s.wrong, fmt.Errorf("%s is acquired twice in one batch", p.Key))
		}
		acquired[p.Key], keys[p.Key] = true, true
	}
	for key := range keys {
		if s.underWay[key] {
			s.wrong = append(s.wrong, fmt.Errorf("%s is in two batches at once", key))
		}
		s.underWay[key] = true
	}
	if len(keys) > lockstore.MaxBatch {
		s.wrong = append(s.wrong, fmt.Errorf("a batch of %d keys", len(keys)))
	}
	s.now++
	s.most = max(s.most, s.now)
	s.batches = append(s.batches, len(keys))
	return keys
}

func (s *spy) end(keys map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range keys {
		delete(s.underWay, key)
	}
	s.now--
}

func (s *spy) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.wrong...)
}
