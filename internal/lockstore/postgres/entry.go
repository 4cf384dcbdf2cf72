package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// List returns entries by key. A lapsed one is listed and marked.
func (s *Store) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	return s.entries(ctx, "list locks", "", filter)
}

// Show returns one entry, or ErrNotFound, with the server processes that keep
// it from others in open transactions (K-2.11).
func (s *Store) Show(ctx context.Context, key string) (lockstore.Entry, error) {
	if err := lockstore.LookupKey(key); err != nil {
		return lockstore.Entry{}, err
	}
	doing := fmt.Sprintf("show lock %q", key)
	entries, err := s.entries(ctx, doing, key, lockstore.Filter{})
	if err != nil {
		return lockstore.Entry{}, err
	}
	if len(entries) == 0 {
		return lockstore.Entry{}, fmt.Errorf("lock %q: %w", key, lockstore.ErrNotFound)
	}
	entry := entries[0]
	err = s.read(ctx, doing, blockersQuery, []any{key}, func(rows pgx.Rows) (err error) {
		entry.BlockedBy, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	if err != nil {
		return lockstore.Entry{}, err
	}
	return entry, nil
}

func (s *Store) entries(ctx context.Context, doing, key string, filter lockstore.Filter) ([]lockstore.Entry, error) {
	if err := errors.Join(lockstore.LookupText("owner", filter.Owner), lockstore.LookupText("prefix", filter.Prefix)); err != nil {
		return nil, err
	}
	var session *uuid.UUID
	if filter.Session != "" {
		parsed, err := sessionUUID(filter.Session)
		if err != nil {
			return nil, err
		}
		session = &parsed
	}
	args := []any{null(key), null(filter.Owner), session, null(filter.Prefix), filter.Expired, null(filter.Limit)}
	entries := []lockstore.Entry{}
	err := s.read(ctx, doing, listEntriesQuery, args, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var entry lockstore.Entry
			var age, remaining *float64
			var id uuid.UUID
			err := rows.Scan(&entry.Key, &entry.Token, &entry.Owner, &id, timeTo(&entry.AcquiredAt), timeTo(&entry.ExpiresAt),
				timeTo(&entry.SessionExpiresAt), &age, &remaining, &entry.Expired)
			entry.Session, entry.Age, entry.Remaining = lockstore.SessionID(id.String()), secondsTo(age), secondsTo(remaining)
			entries = append(entries, entry)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
