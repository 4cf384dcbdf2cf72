package syncguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// original imitates SyncGuard 2.5.2: the same statements in the same order, the time
// read when the transaction begins, an acquire that locks no row and an extend that
// takes no advisory lock.
type original struct {
	pool *pgxpool.Pool
	// at is called between its steps, so that a race can be played in one order.
	at func(step)
	// clock is its time in milliseconds: when the transaction began.
	clock string
}

// step is a place between two statements of the original.
type step string

const (
	// hasLooked: it has read the row and the time, and has changed nothing yet.
	hasLooked step = "looked"
	// hasChanged: all is done but COMMIT.
	hasChanged step = "changed"
)

func newOriginal(t *testing.T, b bundle) *original {
	t.Helper()
	return &original{pool: b.db.Pool(t, "t_owner"), at: func(step) {}, clock: serverClock}
}

// held is what the original tells its caller.
type held struct {
	ok               bool
	lockID, fence    string
	expires, granted int64
}

const (
	serverClock   = `extract(epoch FROM now()) * 1000`
	originalByKey = `SELECT lock_id, expires_at_ms FROM syncguard_locks WHERE key = $1`
	originalByID  = `SELECT key, expires_at_ms FROM syncguard_locks WHERE lock_id = $1 FOR UPDATE`
)

func (o *original) acquire(ctx context.Context, key string, ttlMs int64) (held, error) {
	var got held
	err := o.inTransaction(ctx, func(tx pgx.Tx) error {
		lock, fenceKey, err := syncguard.KeysOf(key)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, lock); err != nil {
			return err
		}
		now, err := o.now(ctx, tx)
		if err != nil {
			return err
		}
		var id string
		var expires int64
		err = tx.QueryRow(ctx, originalByKey, lock).Scan(&id, &expires)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		o.at(hasLooked)
		if err == nil && expires > now-1000 {
			return nil
		}
		if _, err := tx.Exec(ctx, `INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES ($1, 0, $2) ON CONFLICT (fence_key) DO NOTHING`, fenceKey, lock); err != nil {
			return err
		}
		var fence int64
		if err := tx.QueryRow(ctx, `UPDATE syncguard_fence_counters SET fence = fence + 1 WHERE fence_key = $1 RETURNING fence`, fenceKey).Scan(&fence); err != nil {
			return err
		}
		got = held{ok: true, lockID: syncguard.NewLockID(), fence: fmt.Sprintf("%015d", fence), expires: now + ttlMs, granted: now}
		_, err = tx.Exec(ctx, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ($1, $2, $3, $4, $5, $1)
			ON CONFLICT (key) DO UPDATE SET lock_id = EXCLUDED.lock_id, expires_at_ms = EXCLUDED.expires_at_ms, acquired_at_ms = EXCLUDED.acquired_at_ms,
			fence = EXCLUDED.fence, user_key = EXCLUDED.user_key`, lock, got.lockID, got.expires, now, got.fence)
		return err
	})
	if err != nil {
		return held{}, err
	}
	return got, nil
}

func (o *original) extend(ctx context.Context, lockID string, ttlMs int64) (held, error) {
	return o.byID(ctx, lockID, func(tx pgx.Tx, key string, now int64) (held, error) {
		_, err := tx.Exec(ctx, `UPDATE syncguard_locks SET expires_at_ms = $2 WHERE key = $1`, key, now+ttlMs)
		return held{ok: true, lockID: lockID, expires: now + ttlMs}, err
	})
}

func (o *original) release(ctx context.Context, lockID string) (held, error) {
	return o.byID(ctx, lockID, func(tx pgx.Tx, key string, _ int64) (held, error) {
		_, err := tx.Exec(ctx, `DELETE FROM syncguard_locks WHERE key = $1`, key)
		return held{ok: true}, err
	})
}

// byID changes the row of a lock id that is live.
func (o *original) byID(ctx context.Context, lockID string, change func(tx pgx.Tx, key string, now int64) (held, error)) (held, error) {
	var got held
	err := o.inTransaction(ctx, func(tx pgx.Tx) error {
		now, err := o.now(ctx, tx)
		if err != nil {
			return err
		}
		var key string
		var expires int64
		err = tx.QueryRow(ctx, originalByID, lockID).Scan(&key, &expires)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		o.at(hasLooked)
		if expires <= now-1000 {
			return nil
		}
		got, err = change(tx, key, now)
		return err
	})
	if err != nil {
		return held{}, err
	}
	return got, nil
}

// owns is the original's look by lock id: one read, no lock, the tolerance included.
func (o *original) owns(ctx context.Context, lockID string) (bool, error) {
	var owns bool
	err := o.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM syncguard_locks WHERE lock_id = $1 AND expires_at_ms > floor(`+o.clock+`) - 1000)`, lockID).Scan(&owns)
	return owns, err
}

// begins makes it begin so much later than those whose clock is the server's.
func (o *original) begins(later time.Duration) *original {
	o.clock = fmt.Sprintf("%s + %d", serverClock, later.Milliseconds())
	return o
}

// now is floored on the client's side.
func (o *original) now(ctx context.Context, tx pgx.Tx) (int64, error) {
	var now float64
	err := tx.QueryRow(ctx, `SELECT `+o.clock).Scan(&now)
	return int64(now), err
}

// inTransaction is a plain BEGIN, at whatever isolation the database has for default.
func (o *original) inTransaction(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		o.at(hasChanged)
		return nil
	})
}
