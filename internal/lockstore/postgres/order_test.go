package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Many clients on one key, each in a loop of acquire, note the token while
// holding, release: the notes are in the order of holding, so every later one
// must be higher. With the trigger disabled the same run finds violations.
//
// Clauses: K-1, K-1.2, K-1.3
// Mutation: disable lock_entry_order (the test does, and expects the violations).
func TestTokensRiseInGrantOrder(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		const clients, grants = 8, 600
		tokens := contend(t, b, clients, grants)
		if violations, first := disorder(tokens); violations > 0 {
			t.Errorf("%d of %d grants are out of order, first %s", violations, len(tokens), first)
		}
		b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`)
		tokens = contend(t, b, clients, grants)
		if violations, _ := disorder(tokens); violations == 0 {
			t.Errorf("without the trigger %d grants are all in order: the test proves nothing", len(tokens))
		}
	})
}

// contend returns the tokens of grants on one key, in the order of holding.
func contend(t *testing.T, b bundle, clients, grants int) []lockstore.Token {
	t.Helper()
	var mu sync.Mutex
	var tokens []lockstore.Token
	enough := func() bool { mu.Lock(); defer mu.Unlock(); return len(tokens) >= grants }
	group, ctx := errgroup.WithContext(t.Context())
	for i := range clients {
		owner := fmt.Sprintf("client-%d", i)
		session := b.session(t, owner)
		group.Go(func() error {
			for !enough() {
				grant, err := b.store.Acquire(ctx, lockstore.AcquireParams{Key: "hot", Owner: owner, Session: session, TTL: time.Minute})
				if held := (*lockstore.HeldError)(nil); errors.As(err, &held) {
					continue
				}
				if err != nil {
					return err
				}
				mu.Lock()
				tokens = append(tokens, grant.Token)
				mu.Unlock()
				if _, err := b.store.Release(ctx, "hot", grant.Token); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return tokens
}

func disorder(tokens []lockstore.Token) (violations int, first string) {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] > tokens[i-1] {
			continue
		}
		if violations == 0 {
			first = fmt.Sprintf("%s after %s", tokens[i], tokens[i-1])
		}
		violations++
	}
	return violations, first
}
