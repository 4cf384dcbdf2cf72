package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	crowdClients = 8
	crowdGrants  = 400
)

// crowd lets many clients fight for one key. Each notes its token while it
// holds, so the notes are in the order of holding, and must only rise.
func (t *takeover) crowd(ctx context.Context) error {
	t.chapter(fmt.Sprintf("%d clients fight for one key", crowdClients))
	t.step("each acquires, notes its token while it holds, and releases, until there were %d grants", crowdGrants)
	tokens, err := t.fight(ctx)
	if err != nil {
		return err
	}
	wrong := 0
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			wrong++
		}
	}
	var journalled, distinct int
	err = t.Lock.QueryRow(ctx, `SELECT count(*), count(DISTINCT fencing_token) FROM lock_grant WHERE lock_key = $1`, crowdKey).Scan(&journalled, &distinct)
	if err != nil {
		return fmt.Errorf("read back lock_grant: %w", err)
	}
	t.expect("tokens_in_order", "K-1.3", "every later holder has a higher token", wrong == 0 && len(tokens) >= crowdGrants && journalled == len(tokens) && distinct == journalled,
		"%d grants, %d out of order; lock_grant: %d rows, %d distinct tokens", len(tokens), wrong, journalled, distinct)
	return nil
}

const crowdKey = "demo:contended"

func (t *takeover) fight(ctx context.Context) ([]lockstore.Token, error) {
	var mu sync.Mutex
	var tokens []lockstore.Token
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tokens) >= crowdGrants
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range crowdClients {
		group.Go(func() error {
			store, err := t.Open(ctx)
			if err != nil {
				return err
			}
			defer store.Close()
			owner := fmt.Sprintf("client-%d", i+1)
			session, err := store.CreateSession(ctx, owner, sessionTTL)
			if err != nil {
				return err
			}
			for !enough() {
				grant, err := store.Acquire(ctx, lockstore.AcquireParams{Key: crowdKey, Owner: owner, Session: session.ID, TTL: time.Minute})
				if _, held := errors.AsType[*lockstore.HeldError](err); held {
					continue
				}
				if err != nil {
					return err
				}
				mu.Lock()
				tokens = append(tokens, grant.Token)
				mu.Unlock()
				if _, err := store.Release(ctx, crowdKey, grant.Token); err != nil {
					return err
				}
			}
			_, err = store.EndSession(ctx, session.ID)
			return err
		})
	}
	err := group.Wait()
	return tokens, err
}
