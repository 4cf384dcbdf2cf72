package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// CreateSession opens a session under an id made here, at random: it is a
// secret (K-2.12).
func (s *Store) CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	if err := errors.Join(lockstore.ValidOwner(owner), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Session{}, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return lockstore.Session{}, fmt.Errorf("make a session id: %w", err)
	}
	session := lockstore.Session{ID: lockstore.SessionID(id.String()), Owner: owner, Remaining: ttl, Sent: time.Now()}
	err = s.change(ctx, "create session", "", createSessionQuery, []any{id, owner, ttl.Seconds()}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			return rows.Scan(timeTo(&session.CreatedAt), timeTo(&session.ExpiresAt))
		})
	})
	if err != nil {
		return lockstore.Session{}, err
	}
	return session, nil
}

// Heartbeat extends a live session, never shortens it (K-2.10).
func (s *Store) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	parsed, err := sessionUUID(id)
	if err := errors.Join(lockstore.ValidTTL(ttl), err); err != nil {
		return lockstore.Session{}, err
	}
	doing := "heartbeat session " + id.Masked()
	session := lockstore.Session{ID: id, Remaining: ttl, Sent: time.Now()}
	alive := false
	err = s.change(ctx, doing, "", heartbeatQuery, []any{ttl.Seconds(), [16]byte(parsed)}, func(rows pgx.Rows) error {
		alive = false
		return scanRows(rows, func() error {
			alive = true
			return rows.Scan(timeTo(&session.ExpiresAt))
		})
	})
	if err != nil {
		return lockstore.Session{}, err
	}
	if !alive {
		return lockstore.Session{}, fmt.Errorf("%s: %w", doing, lockstore.ErrSessionLost)
	}
	return session, nil
}

// EndSession deletes a session and, with it, its locks.
func (s *Store) EndSession(ctx context.Context, id lockstore.SessionID) (int, error) {
	parsed, err := sessionUUID(id)
	if err != nil {
		return 0, err
	}
	locks := 0
	err = s.transaction(ctx, "end session "+id.Masked(), "", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, lockSessionQuery, parsed)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return lockstore.ErrNotFound
		}
		locks, err = deleteSessions(ctx, tx, []uuid.UUID{parsed})
		return err
	})
	if err != nil {
		return 0, err
	}
	return locks, nil
}

// ReapSessions deletes at most limit lapsed sessions in one transaction of
// three statements (K-2.4), and makes the journal's partitions ahead (K-11).
func (s *Store) ReapSessions(ctx context.Context, limit int) (lockstore.Reaped, error) {
	if limit < 1 {
		return lockstore.Reaped{}, fmt.Errorf("limit %d: at least one session is reaped at a time: %w", limit, lockstore.ErrInvalid)
	}
	var reaped lockstore.Reaped
	err := s.transaction(ctx, "reap sessions", "", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lapsedSessionsQuery, limit)
		if err != nil {
			return err
		}
		lapsed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		locks, err := deleteSessions(ctx, tx, lapsed)
		reaped = lockstore.Reaped{Sessions: len(lapsed), Locks: locks}
		return err
	})
	if err != nil {
		return lockstore.Reaped{}, err
	}
	// Behind a long reader it gives up: DEFAULT takes the grants meanwhile.
	err = s.change(ctx, "make partitions of the grant journal", "", extendJournalQuery, nil, discard)
	if blocked := (*lockstore.BlockedError)(nil); err != nil && !errors.As(err, &blocked) {
		return reaped, err
	}
	return reaped, nil
}

func deleteSessions(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (locks int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	tag, err := tx.Exec(ctx, lockEntriesQuery, ids)
	if err != nil {
		return 0, err
	}
	deleted, err := tx.Exec(ctx, deleteSessionsQuery, ids)
	if err != nil {
		return 0, err
	}
	if deleted.RowsAffected() != int64(len(ids)) {
		return 0, fmt.Errorf("deleted %d of %d locked sessions", deleted.RowsAffected(), len(ids))
	}
	return int(tag.RowsAffected()), nil
}

func discard(rows pgx.Rows) error { return scanRows(rows, func() error { return nil }) }

// Session returns one session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id lockstore.SessionID) (lockstore.Session, error) {
	parsed, err := sessionUUID(id)
	if err != nil {
		return lockstore.Session{}, err
	}
	sessions, err := s.sessions(ctx, &parsed, lockstore.SessionFilter{})
	if err != nil {
		return lockstore.Session{}, err
	}
	if len(sessions) == 0 {
		return lockstore.Session{}, fmt.Errorf("session %s: %w", id.Masked(), lockstore.ErrNotFound)
	}
	return sessions[0], nil
}

// Sessions lists sessions by creation.
func (s *Store) Sessions(ctx context.Context, filter lockstore.SessionFilter) ([]lockstore.Session, error) {
	return s.sessions(ctx, nil, filter)
}

func (s *Store) sessions(ctx context.Context, id *uuid.UUID, filter lockstore.SessionFilter) ([]lockstore.Session, error) {
	if err := lockstore.LookupText("owner", filter.Owner); err != nil {
		return nil, err
	}
	sessions := []lockstore.Session{}
	err := s.read(ctx, "list sessions", listSessionsQuery, []any{id, null(filter.Owner), filter.Expired, null(filter.Limit)}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var session lockstore.Session
			var remaining *float64
			var parsed uuid.UUID
			err := rows.Scan(&parsed, &session.Owner, timeTo(&session.CreatedAt), timeTo(&session.ExpiresAt), &remaining, &session.Locks)
			session.ID, session.Remaining = lockstore.SessionID(parsed.String()), secondsTo(remaining)
			sessions = append(sessions, session)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return sessions, nil
}
