package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Acquire tries once. Besides the errors of the package comment of lockstore
// it returns one that wraps ErrInvalid before anything is sent.
func (s *Store) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	id, err := sessionUUID(params.Session)
	if err := errors.Join(lockstore.ValidKey(params.Key), lockstore.ValidOwner(params.Owner), lockstore.ValidTTL(params.TTL), err); err != nil {
		return lockstore.Grant{}, err
	}
	doing := fmt.Sprintf("acquire lock %q", params.Key)
	grant := lockstore.Grant{Key: params.Key, TTL: params.TTL, Sent: time.Now()}
	granted := false
	asked, err := s.grant(ctx, doing, params.Key, acquireQuery, []any{params.Key, params.Owner, [16]byte(id), params.TTL.Seconds()}, func(rows pgx.Rows) error {
		granted = false // a deadlock's second try starts from nothing
		var session pgtype.UUID
		return scanRows(rows, func() error {
			granted = true
			return rows.Scan(&grant.Token, &grant.Owner, &session, timeTo(&grant.AcquiredAt), timeTo(&grant.ExpiresAt))
		})
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	if !granted {
		return lockstore.Grant{}, s.held(ctx, params.Key)
	}
	err = s.show(ctx, doing, asked, grant.Token, grant.Token, func() []lockstore.GrantRef {
		return []lockstore.GrantRef{{Key: grant.Key, Token: grant.Token}}
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	grant.Session = params.Session
	return grant, nil
}

// held says who holds the key. Nobody, if it was let go since the refusal: the
// caller was refused all the same.
func (s *Store) held(ctx context.Context, key string) error {
	held := &lockstore.HeldError{Key: key}
	entry, err := s.Show(ctx, key)
	switch {
	case errors.Is(err, lockstore.ErrNotFound), err == nil && entry.Expired:
		return held
	case err != nil:
		return errors.Join(held, err)
	}
	held.Owner, held.Token, held.ExpiresAt, held.Remaining = entry.Owner, entry.Token, entry.ExpiresAt, entry.Remaining
	return held
}

// Renew extends the grant. The answer's ExpiresAt is the later of what was
// promised before and now plus ttl (K-2.10).
func (s *Store) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Grant{}, err
	}
	doing := fmt.Sprintf("renew lock %q", key)
	grant := lockstore.Grant{Key: key, TTL: ttl, Sent: time.Now()}
	renewed := false
	err := s.change(ctx, doing, key, renewQuery, []any{ttl.Seconds(), key, token}, func(rows pgx.Rows) error {
		renewed = false
		return scanRows(rows, func() error {
			renewed = true
			return rows.Scan(&grant.Token, timeTo(&grant.ExpiresAt))
		})
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	if !renewed {
		return lockstore.Grant{}, fmt.Errorf("%s with token %s: %w", doing, token, lockstore.ErrLockLost)
	}
	return grant, nil
}

// Release deletes the grant of this very token, or answers Stale. One whose
// answer was lost may be repeated for ever (K-2.7).
func (s *Store) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token)); err != nil {
		return lockstore.Release{}, err
	}
	release := lockstore.Release{Key: key, Token: token, Stale: true}
	err := s.change(ctx, fmt.Sprintf("release lock %q", key), key, releaseQuery, []any{key, token}, func(rows pgx.Rows) error {
		release.Stale = true
		return scanRows(rows, func() error {
			release.Stale = false
			return rows.Scan(nil)
		})
	})
	if err != nil {
		return lockstore.Release{}, err
	}
	return release, nil
}

// scanRows calls scan for each row and closes rows.
func scanRows(rows pgx.Rows, scan func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return rows.Err()
}
