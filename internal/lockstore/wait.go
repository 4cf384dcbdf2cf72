package lockstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// firstPause and longestPause bound the back-off between two looks.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	// minPause keeps a waiter from spinning when the holder's lease is all but over.
	minPause = 5 * time.Millisecond
)

// WaitParams is a wait for a lock.
type WaitParams struct {
	AcquireParams
	// Max is how long to wait.
	Max time.Duration
	// SessionTTL, when set, keeps the session alive while waiting: a waiter
	// whose own session died would wait for nothing.
	SessionTTL time.Duration
	// Waiting, when set, is told who holds the key each time that changes.
	Waiting func(*HeldError)
}

// Wait acquires a lock as soon as it is free, for at most Max (K-2.8). It looks
// before it tries, since a contended try burns a token, and sleeps with jitter
// between looks, never past the holder's remaining lease. A transaction that
// blocks the key counts as a holder. Returns *WaitTimeoutError when the time ran
// out; what Acquire returns otherwise. When ctx ends between two tries, nothing
// is held; when it ends within one, the outcome is unknown as ever (K-2.9).
func Wait(ctx context.Context, store Store, params WaitParams) (Grant, error) {
	w := waiter{store: store, params: params, started: time.Now(), beat: time.Now()}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		grant, err := w.try(ctx)
		if err == nil || !contended(err) {
			return grant, err
		}
		if err := w.sleep(ctx, pause, err); err != nil {
			return Grant{}, err
		}
	}
}

type waiter struct {
	store         Store
	params        WaitParams
	started, beat time.Time
	looked        bool
	holder        Token
}

// try acquires, after a look that says it may succeed; the first try needs none.
func (w *waiter) try(ctx context.Context) (Grant, error) {
	if w.looked {
		entry, err := w.store.Show(ctx, w.params.Key)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return Grant{}, err
		case !entry.Expired && (entry.Owner != w.params.Owner || entry.Session != w.params.Session):
			return Grant{}, &HeldError{Key: entry.Key, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
		}
	}
	w.looked = true
	return w.store.Acquire(ctx, w.params.AcquireParams)
}

func contended(err error) bool {
	_, held := errors.AsType[*HeldError](err)
	_, blocked := errors.AsType[*BlockedError](err)
	return held || blocked
}

func (w *waiter) sleep(ctx context.Context, pause time.Duration, last error) error {
	left := w.params.Max - time.Since(w.started)
	if left <= 0 {
		return &WaitTimeoutError{Key: w.params.Key, Waited: time.Since(w.started), Last: last}
	}
	if err := w.keepAlive(ctx); err != nil {
		return err
	}
	pause = pause/2 + rand.N(pause) //nolint:gosec // G404: 0.5 to 1.5 of it, against a herd; nobody gains by guessing it
	if held, ok := errors.AsType[*HeldError](last); ok {
		if held.Remaining > 0 {
			pause = min(pause, held.Remaining)
		}
		if w.params.Waiting != nil && held.Token != 0 && held.Token != w.holder {
			w.holder = held.Token
			w.params.Waiting(held)
		}
	}
	if w.params.SessionTTL > 0 {
		pause = min(pause, w.params.SessionTTL/3)
	}
	if err := Pause(ctx, max(min(pause, left), minPause)); err != nil {
		return fmt.Errorf("wait for lock %q: %w", w.params.Key, err)
	}
	return nil
}

// Pause waits so long, and returns the cause where ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// keepAlive heartbeats the session before a third of its time has passed.
func (w *waiter) keepAlive(ctx context.Context) error {
	if w.params.SessionTTL <= 0 || time.Since(w.beat) < w.params.SessionTTL/3 {
		return nil
	}
	w.beat = time.Now()
	_, err := w.store.Heartbeat(ctx, w.params.Session, w.params.SessionTTL)
	return err
}
