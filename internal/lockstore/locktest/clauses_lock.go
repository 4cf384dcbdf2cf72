package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func declaration(s *suite) {
	if got := s.store.Capabilities(); got != s.Declared {
		s.Errorf("the store declares %+v, its documentation %+v", got, s.Declared)
	}
}

func grant(s *suite) {
	alice := s.holder("alice")
	s.free("k")
	got := s.acquire(alice, "k", time.Minute)
	if got.Key != "k" || got.Token < 1 || got.Token > lockstore.MaxToken || got.Owner != s.kept("alice") || got.Session != alice.session || got.TTL != time.Minute || got.Sent.IsZero() {
		s.Errorf("granted %+v", got)
	}
	s.stands(got)
	entries, err := s.other.List(s.ctx(), lockstore.Filter{})
	if err != nil || len(entries) != 1 || entries[0].Key != "k" || entries[0].Token != got.Token {
		s.Errorf("listed %+v, %v", entries, err)
	}
	if s.Declared.OwnTTL && got.ExpiresAt.Sub(got.AcquiredAt.Time) != time.Minute {
		s.Errorf("granted from %s to %s, want a minute", got.AcquiredAt, got.ExpiresAt)
	}
	if other := s.acquire(alice, "other", time.Minute); s.Declared.LockIDs == (got.LockID == "") || s.Declared.LockIDs == (got.LockID == other.LockID) {
		s.Errorf("granted under the ids %q and %q, which the backend declares: %t", got.LockID, other.LockID, s.Declared.LockIDs)
	}
}

func exclusion(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	standing := s.acquire(alice, "k", time.Minute)
	for range 3 {
		s.keptOut(bob, standing)
	}
	s.stands(standing)
	if _, err := s.store.Renew(s.ctx(), "k", standing.Token, time.Minute); err != nil {
		s.Errorf("the holder renews: %v", err)
	}
}

func risingTokens(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	first := s.acquire(alice, "k", time.Minute)
	s.release("k", first.Token, false)
	second := s.acquire(bob, "k", time.Minute)
	s.above(second, first, "after a release")
	s.release("k", second.Token, false)
	third := s.lapsed("carol", "k")
	s.above(third, second, "after another")
	s.above(s.acquire(alice, "k", time.Minute), third, "takeover")
}

func tokensOverKeys(s *suite) {
	alice := s.holder("alice")
	var grants []lockstore.Grant
	for i := range 5 {
		grants = append(grants, s.acquire(alice, fmt.Sprint("k", i), time.Minute))
	}
	for i := 1; i < len(grants); i++ {
		switch {
		case s.Declared.GlobalTokens:
			s.above(grants[i], grants[i-1], "the next key")
		case grants[i].Token != grants[0].Token:
			s.Errorf("new keys begin with tokens %s and %s, though each is declared to count alone", grants[0].Token, grants[i].Token)
		}
	}
}

func reEntry(s *suite) {
	alice := s.holder("alice")
	first := s.acquire(alice, "k", time.Minute)
	if !s.Declared.Sessions {
		s.keptOut(alice, first)
		s.stands(first)
		return
	}
	second := s.acquire(alice, "k", time.Minute)
	s.above(second, first, "re-entry")
	s.lost("k", first.Token)
	s.release("k", first.Token, true)
	s.stands(second)
}

func sessionsOfOneOwner(s *suite) {
	if !s.Declared.Sessions {
		_, err := s.store.CreateSession(s.ctx(), "alice", time.Hour)
		s.unsupported(map[string]error{"CreateSession": err})
		return
	}
	standing := s.acquire(s.holder("alice"), "k", time.Minute)
	s.keptOut(s.holder("alice"), standing)
	s.stands(standing)
}

func lapse(s *suite) {
	old := s.lapsed("alice", "k")
	s.lost("k", old.Token)
	bob := s.holder("bob")
	taken := s.acquire(bob, "k", time.Minute)
	s.above(taken, old, "takeover")
	if s.Declared.OwnTTL && taken.AcquiredAt.Before(old.ExpiresAt.Add(s.Declared.Tolerance)) {
		s.Errorf("taken over at %s, before the end %s and the tolerance of %s", taken.AcquiredAt, old.ExpiresAt, s.Declared.Tolerance)
	}
	s.lost("k", old.Token)
	s.release("k", old.Token, true)
	s.stands(taken)
}

func promises(s *suite) {
	alice := s.holder("alice")
	first := s.acquire(alice, "k", time.Minute)
	longer, err := s.store.Renew(s.ctx(), "k", first.Token, time.Hour)
	if err != nil || longer.Token != first.Token {
		s.Fatalf("renew: %+v, %v", longer, err)
	}
	if s.Declared.OwnTTL && !longer.ExpiresAt.After(first.ExpiresAt.Time) {
		s.Errorf("renewed to %s, from %s", longer.ExpiresAt, first.ExpiresAt)
	}
	shorter, err := s.store.Renew(s.ctx(), "k", first.Token, time.Second)
	if err != nil || shorter.ExpiresAt.Before(longer.ExpiresAt.Time) {
		s.Errorf("a shorter renewal: %+v, %v, want no end before %s", shorter, err, longer.ExpiresAt)
	}
	if s.Declared.Sessions {
		if again := s.acquire(alice, "k", time.Second); again.ExpiresAt.Before(longer.ExpiresAt.Time) {
			s.Errorf("a shorter re-entry ends at %s, before %s", again.ExpiresAt, longer.ExpiresAt)
		}
	}
	s.lost("nobody's", first.Token)
}

func release(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	first := s.acquire(alice, "k", time.Minute)
	s.release("nobody's", first.Token, true)
	s.stands(first)
	s.release("k", first.Token, false)
	s.free("k")
	s.release("k", first.Token, true)
	current := s.acquire(bob, "k", time.Minute)
	for range 3 {
		s.release("k", first.Token, true)
	}
	s.stands(current)
}

// contention: whoever holds the key writes its token down, and nobody else does
// at that time.
func contention(s *suite) {
	const clients, grants = 8, 50
	var mu sync.Mutex
	var tokens []lockstore.Token
	holders := 0
	group, ctx := errgroup.WithContext(s.ctx())
	for i := range clients {
		h := s.holder(fmt.Sprint("client-", i))
		store := []lockstore.Store{s.store, s.other}[i%2]
		group.Go(func() error {
			for {
				mu.Lock()
				enough := len(tokens) >= grants
				mu.Unlock()
				if enough {
					return nil
				}
				got, err := store.Acquire(ctx, h.wants("hot", time.Minute))
				_, held := errors.AsType[*lockstore.HeldError](err)
				if _, blocked := errors.AsType[*lockstore.BlockedError](err); held || blocked {
					continue
				}
				if err != nil {
					return err
				}
				mu.Lock()
				holders++
				tokens = append(tokens, got.Token)
				if holders != 1 {
					err = fmt.Errorf("%d clients hold the key", holders)
				}
				holders--
				mu.Unlock()
				if _, relErr := store.Release(ctx, "hot", got.Token); err != nil || relErr != nil {
					return errors.Join(err, relErr)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		s.Fatal(err)
	}
	if !slices.IsSortedFunc(tokens, func(a, b lockstore.Token) int {
		if a < b {
			return -1
		}
		return 1
	}) {
		s.Errorf("in the order of holding the tokens are %v", tokens)
	}
}

func waiting(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	held := s.acquire(alice, "k", time.Hour)
	told := make(chan struct{})
	var once sync.Once
	params := lockstore.WaitParams{AcquireParams: bob.wants("k", time.Minute), Max: s.patience, Waiting: func(h *lockstore.HeldError) {
		if h.Token == held.Token {
			once.Do(func() { close(told) })
		}
	}}
	var got lockstore.Grant
	group, ctx := errgroup.WithContext(s.ctx())
	group.Go(func() (err error) { got, err = lockstore.Wait(ctx, s.other, params); return err })
	select {
	case <-told:
	case <-ctx.Done():
		s.Fatalf("a waiter: %v", group.Wait())
	}
	s.release("k", held.Token, false)
	if err := group.Wait(); err != nil {
		s.Fatalf("a waiter, after the release: %v", err)
	}
	s.above(got, held, "a waiter's grant")
	s.stands(got)
}

func contextOver(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	standing := s.acquire(alice, "k", time.Minute)
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	_, acquired := s.store.Acquire(ctx, bob.wants("new", time.Minute))
	_, released := s.store.Release(ctx, "k", standing.Token)
	_, renewed := s.store.Renew(ctx, "k", standing.Token, time.Hour)
	_, revoked := s.store.Revoke(ctx, lockstore.RevokeParams{Key: "k", Token: standing.Token, Operator: "erin", Reason: "why"})
	for name, err := range map[string]error{"acquire": acquired, "release": released, "renew": renewed, "revoke": revoked} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s: %v, want the cancellation", name, err)
		}
	}
	s.stands(standing)
	s.free("new")
}
