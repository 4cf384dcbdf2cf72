package syncguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// row is a row of the lock table, looked at under its locks, and the clock then.
type row struct {
	there                   bool
	lockID, fence           string
	acquiredAtMs, expiresAt int64
	now                     int64
}

// live tells whether the row is somebody's lock: to the library's second past its end.
func (r row) live() bool { return r.there && live(r.expiresAt, r.now) }

func live(expiresAtMs, nowMs int64) bool { return expiresAtMs > nowMs-Tolerance.Milliseconds() }

// locked takes the key's advisory lock and then the row that look selects, and
// reads the clock when it has both. All of it is one round trip.
func (s *Store) locked(ctx context.Context, tx pgx.Tx, key, look string, args ...any) (row, error) {
	var r row
	batch := &pgx.Batch{}
	batch.Queue(s.sql.lockKey, key)
	batch.Queue(look, args...).Query(func(rows pgx.Rows) error {
		return scanRows(rows, func(found pgx.Row) error {
			r.there = true
			return found.Scan(&r.lockID, &r.fence, &r.acquiredAtMs, &r.expiresAt)
		})
	})
	batch.Queue(s.sql.clock).QueryRow(func(clock pgx.Row) error { return clock.Scan(&r.now) })
	err := tx.SendBatch(ctx, batch).Close()
	return r, err
}

// Acquire tries once. The owner is checked and not kept. Besides the errors of the
// package comment of lockstore it returns one that wraps ErrInvalid before anything
// is sent, and *lockstore.UnsafeError for a key whose counter is used up or was set
// back.
func (s *Store) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	k, err := keysOf(params.Key)
	if err := errors.Join(err, lockstore.ValidOwner(params.Owner), lockstore.ValidTTL(params.TTL)); err != nil {
		return lockstore.Grant{}, err
	}
	if params.Session != "" {
		return lockstore.Grant{}, noSessions("acquire under a session")
	}
	grant := lockstore.Grant{Key: k.lock, TTL: params.TTL, Sent: time.Now(), LockID: newLockID()}
	err = s.change(ctx, fmt.Sprintf("acquire lock %q", k.lock), k.lock, func(tx pgx.Tx) error {
		standing, err := s.locked(ctx, tx, k.lock, s.sql.standing, k.lock)
		if err != nil {
			return err
		}
		if standing.live() {
			return heldError(k.lock, standing)
		}
		drawn, now, err := s.draw(ctx, tx, k, standing)
		if err != nil {
			return err
		}
		expires := now + milliseconds(params.TTL)
		grant.Token, grant.AcquiredAt, grant.ExpiresAt = drawn, timeOf(now), timeOf(expires)
		tag, err := tx.Exec(ctx, s.sql.grant, k.lock, grant.LockID, expires, now, fenceText(drawn), standing.replaced())
		return one(tag.RowsAffected(), err)
	})
	if held, ok := errors.AsType[*lockstore.HeldError](err); ok {
		return lockstore.Grant{}, held
	}
	if err != nil {
		return lockstore.Grant{}, err
	}
	if grant.Token > WarnFence {
		s.fenceWarning(telemetryHash(k.lock), grant.Token)
	}
	return grant, nil
}

// draw takes the key's next fence, in the library's two steps, under the key's
// advisory lock; a rolled-back acquire gives it back. It reads the clock once more:
// somebody who raises counters may have held this one.
func (s *Store) draw(ctx context.Context, tx pgx.Tx, k keys, standing row) (token lockstore.Token, now int64, err error) {
	var drawn *lockstore.Token
	var counter lockstore.Token
	batch := &pgx.Batch{}
	batch.Queue(s.sql.makeCounter, k.fence, k.lock)
	batch.Queue(s.sql.draw, k.fence, MaxFence).Query(func(rows pgx.Rows) error {
		return scanRows(rows, func(found pgx.Row) error { return found.Scan(&drawn) })
	})
	batch.Queue(s.sql.counter, k.fence).QueryRow(func(found pgx.Row) error { return found.Scan(&counter) })
	batch.Queue(s.sql.clock).QueryRow(func(clock pgx.Row) error { return clock.Scan(&now) })
	switch err := tx.SendBatch(ctx, batch).Close(); {
	case err != nil:
		return 0, 0, err
	case drawn == nil:
		return 0, 0, counterError(k.lock, counter)
	case *drawn <= fenceToken(standing.fence):
		return 0, 0, behindError(k.lock, *drawn, fenceToken(standing.fence))
	}
	return *drawn, now, nil
}

// replaced is the lock id that a grant takes the row from, nil for none.
func (r row) replaced() *string {
	if !r.there {
		return nil
	}
	return &r.lockID
}

// one wants exactly one row to have been changed: it is locked, and whoever changes
// it all the same keeps to no rule.
func one(rows int64, err error) error {
	if err == nil && rows != 1 {
		err = errors.New("the row was changed by somebody who holds none of its locks")
	}
	return err
}

func heldError(key string, r row) *lockstore.HeldError {
	return &lockstore.HeldError{Key: key, Token: fenceToken(r.fence), ExpiresAt: timeOf(r.expiresAt), Remaining: between(r.now, r.expiresAt)}
}

// Renew extends the grant, to a second past its end (Tolerance). The answer's
// ExpiresAt is the later of what was promised before and now plus ttl (K-2.10).
func (s *Store) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	key, err := lookupKey(key)
	if err := errors.Join(err, lockstore.ValidToken(token), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Grant{}, err
	}
	grant := lockstore.Grant{Key: key, Token: token, TTL: ttl, Sent: time.Now()}
	err = s.change(ctx, fmt.Sprintf("renew lock %q", key), key, func(tx pgx.Tx) error {
		own, err := s.locked(ctx, tx, key, s.sql.own, key, fenceText(token))
		if err != nil {
			return err
		}
		if !own.live() {
			return fmt.Errorf("token %s: %w", token, lockstore.ErrLockLost)
		}
		var expires int64
		if err := tx.QueryRow(ctx, s.sql.extend, key, own.lockID, own.now+milliseconds(ttl)).Scan(&expires); err != nil {
			return err
		}
		grant.AcquiredAt, grant.ExpiresAt = timeOf(own.acquiredAtMs), timeOf(expires)
		return nil
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	return grant, nil
}

// Release deletes the grant of this very token, or answers Stale; a row whose lease
// is over is left in place, as the library does.
func (s *Store) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	key, err := lookupKey(key)
	if err := errors.Join(err, lockstore.ValidToken(token)); err != nil {
		return lockstore.Release{}, err
	}
	release := lockstore.Release{Key: key, Token: token}
	err = s.change(ctx, fmt.Sprintf("release lock %q", key), key, func(tx pgx.Tx) error {
		own, err := s.locked(ctx, tx, key, s.sql.own, key, fenceText(token))
		if err != nil {
			return err
		}
		if release.Stale = !own.live(); release.Stale {
			return nil
		}
		tag, err := tx.Exec(ctx, s.sql.delete, key, own.lockID)
		return one(tag.RowsAffected(), err)
	})
	if err != nil {
		return lockstore.Release{}, err
	}
	return release, nil
}
