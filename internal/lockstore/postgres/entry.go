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

// Revoke deletes the grant the operator saw, with its audit row, or neither.
func (s *Store) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	if err := errors.Join(lockstore.LookupKey(params.Key), lockstore.ValidToken(params.Token),
		lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	outcome := lockstore.LockOutcome{Key: params.Key, Presented: params.Token}
	args := []any{params.Key, params.Token, params.Operator, params.Reason}
	err := s.change(ctx, fmt.Sprintf("revoke lock %q", params.Key), params.Key, revokeQuery, args, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			return rows.Scan(&outcome.Outcome, &outcome.AuditID, &outcome.Owner, &outcome.Token)
		})
	})
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	if outcome.Outcome == lockstore.NotHeld {
		return s.lookAgain(ctx, outcome)
	}
	return outcome, nil
}

// lookAgain reads the key in a new statement: while the first one waited, the
// grant may have been deleted and another inserted, which it could not see. A
// row there was granted since the operator looked (K-3.1).
func (s *Store) lookAgain(ctx context.Context, outcome lockstore.LockOutcome) (lockstore.LockOutcome, error) {
	entry, err := s.Show(ctx, outcome.Key)
	if errors.Is(err, lockstore.ErrNotFound) {
		return outcome, nil
	}
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	outcome.Outcome, outcome.Owner, outcome.Token = lockstore.TokenMoved, entry.Owner, entry.Token
	return outcome, nil
}

// Revocations lists audit rows, newest first.
func (s *Store) Revocations(ctx context.Context, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	return s.revocations(ctx, nil, filter)
}

// Revocation returns one audit row, or ErrNotFound.
func (s *Store) Revocation(ctx context.Context, id int64) (lockstore.Revocation, error) {
	found, err := s.revocations(ctx, &id, lockstore.RevocationFilter{})
	if err != nil {
		return lockstore.Revocation{}, err
	}
	if len(found) == 0 {
		return lockstore.Revocation{}, fmt.Errorf("audit row %d: %w", id, lockstore.ErrNotFound)
	}
	return found[0], nil
}

func (s *Store) revocations(ctx context.Context, id *int64, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	found := []lockstore.Revocation{}
	args := []any{id, null(filter.Key), null(filter.Operator), null(filter.Limit)}
	err := s.read(ctx, "list revocations", listRevocationsQuery, args, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var r lockstore.Revocation
			err := rows.Scan(&r.ID, &r.Key, &r.PrevOwner, &r.PrevToken, &r.Operator, &r.Reason, timeTo(&r.RevokedAt), &r.LoginRole, &r.ClientAddress)
			found = append(found, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
