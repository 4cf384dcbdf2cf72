package syncguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// List returns entries by key. A stale one is listed and marked; one within the
// tolerance is not expired.
func (s *Store) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	return s.entries(ctx, "list locks", "", filter)
}

// Show returns one entry, or ErrNotFound, with the server processes that keep it
// from others in open transactions (K-2.11).
func (s *Store) Show(ctx context.Context, key string) (lockstore.Entry, error) {
	keys, err := lookupKeys(key)
	if err != nil {
		return lockstore.Entry{}, err
	}
	name := keys[len(keys)-1]
	doing := fmt.Sprintf("show lock %q", name)
	var entries []lockstore.Entry
	for _, key = range keys {
		if entries, err = s.entries(ctx, doing, key, lockstore.Filter{}); err != nil {
			return lockstore.Entry{}, err
		}
		if len(entries) > 0 {
			break
		}
	}
	if len(entries) == 0 {
		return lockstore.Entry{}, fmt.Errorf("lock %q: %w", name, lockstore.ErrNotFound)
	}
	entry := entries[0]
	err = s.read(ctx, doing, s.sql.blockers, []any{key}, func(row pgx.Row) error {
		var pid int32
		err := row.Scan(&pid)
		entry.BlockedBy = append(entry.BlockedBy, pid)
		return err
	})
	if err != nil {
		return lockstore.Entry{}, err
	}
	return entry, nil
}

// lookupKeys are the keys under which an operator's row may stand: the one that was
// given, for a row that somebody else wrote is found by the key that the list prints,
// and in no other's place; then, where that is another, the normalised one, under
// which the library writes. The last is the lock's name.
func lookupKeys(given string) ([]string, error) {
	key, err := lookupKey(given)
	if err != nil || key == given {
		return []string{key}, err
	}
	return []string{given, key}, nil
}

// narrowed is the prefix to look for, or why the filter cannot be answered.
func narrowed(doing string, filter lockstore.Filter) (prefix string, err error) {
	switch {
	case filter.Owner != "":
		return "", unsupported(doing+" by owner", "SyncGuard's rows name no owner; narrow by a prefix")
	case filter.Session != "":
		return "", noSessions(doing + " by session")
	}
	if err := lockstore.LookupText("prefix", filter.Prefix); err != nil {
		return "", err
	}
	if normal, err := normalised(filter.Prefix); err == nil {
		return normal, nil
	}
	return filter.Prefix, nil
}

func (s *Store) entries(ctx context.Context, doing, key string, filter lockstore.Filter) ([]lockstore.Entry, error) {
	prefix, err := narrowed(doing, filter)
	if err != nil {
		return nil, err
	}
	entries := []lockstore.Entry{}
	args := []any{null(key), null(prefix), filter.Expired, Tolerance.Milliseconds(), null(filter.Limit)}
	err = s.read(ctx, doing, s.sql.listEntries, args, func(row pgx.Row) error {
		entry, err := scanEntry(row)
		entries = append(entries, entry)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// scanEntry reads a row of the lock table, with the clock behind it.
func scanEntry(row pgx.Row) (lockstore.Entry, error) {
	var e lockstore.Entry
	var lockID, fence string
	var acquired, expires, now int64
	if err := row.Scan(&e.Key, &lockID, &fence, &acquired, &expires, &now); err != nil {
		return lockstore.Entry{}, err
	}
	e.Token, e.Fence = shownFence(fence)
	e.KeyHash, e.LockIDHash = telemetryHash(e.Key), telemetryHash(lockID)
	e.AcquiredAt, e.ExpiresAt = timeOf(acquired), timeOf(expires)
	e.Age, e.Remaining = between(acquired, now), between(now, expires)
	switch {
	case expires > now:
		e.State = lockstore.Held
	case live(expires, now):
		e.State = lockstore.InTolerance
	default:
		e.State, e.Expired = lockstore.Stale, true
	}
	return e, nil
}

// null is NULL for the zero value: a filter that is not set.
func null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
