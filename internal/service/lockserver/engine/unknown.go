package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// settleTimeout bounds the look for what became of a batch without an answer.
const settleTimeout = 3 * time.Second

// unanswered answers a batch that came back with an error as a whole. Where its
// outcome is unknown, every release in it is tried again: it can only ever delete its
// own token's row (K-2.7), so that finding it is an answer.
//
// An acquire stays unknown, and its caller re-enters (K-2.9). Nothing that can be
// seen of it is a safe answer: where the session holds the key, the token may be
// one that another call of the session was told through another replica; a second
// try would grant twice, and others may have seen the first; where it does not, the
// lost try may still be on its way.
func (e *Engine) unanswered(db Database, batch []work, err error) {
	if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); !unknown {
		e.failAll(batch, err)
		return
	}
	e.working.Go(func() {
		ctx, cancel := context.WithTimeout(e.life, settleTimeout)
		defer cancel()
		for _, w := range batch {
			e.releaseAgain(ctx, db, w, err)
		}
	})
}

// releaseAgain settles one key. Nothing else of the key goes meanwhile.
func (e *Engine) releaseAgain(ctx context.Context, db Database, w work, unknown error) {
	var release lockstore.Release
	if w.release != nil {
		// Found gone, it may have been deleted by the first try or by somebody else.
		again, err := db.Release(ctx, w.key.name, w.release.token)
		if err == nil && !again.Stale {
			release = again
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.release != nil {
		err := unknown
		if release.Key != "" {
			err = nil
		}
		e.tellRelease(w.release, release, err)
	}
	if w.acquire != nil {
		e.tellAcquire(w.key, w.acquire, lockstore.Grant{}, unknown)
	}
	e.done(w.key)
}
