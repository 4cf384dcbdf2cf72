package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	lookQuery         = query("look", "keys")
	liveSessionsQuery = query("live_sessions", "session_ids")
)

// Look returns what stands at the keys, lapsed or not, by key; a free key has no
// entry. It reads only, and asks once however many keys there are.
func (s *Store) Look(ctx context.Context, keys []string) (map[string]lockstore.Entry, error) {
	var entries map[string]lockstore.Entry
	err := s.read(ctx, "look at locks", lookQuery, []any{keys}, func(rows pgx.Rows) (err error) {
		entries, err = collectLook(rows)
		return err
	})
	return entries, err
}

func collectLook(rows pgx.Rows) (map[string]lockstore.Entry, error) {
	entries := map[string]lockstore.Entry{}
	err := scanRows(rows, func() error {
		var entry lockstore.Entry
		var remaining *float64
		var id uuid.UUID
		err := rows.Scan(&entry.Key, &entry.Token, &entry.Owner, &id, timeTo(&entry.AcquiredAt), timeTo(&entry.ExpiresAt), &remaining, &entry.Expired)
		entry.Session, entry.Remaining = lockstore.SessionID(id.String()), secondsTo(remaining)
		entries[entry.Key] = entry
		return err
	})
	return entries, err
}

// LiveSessions returns which of the sessions still live.
func (s *Store) LiveSessions(ctx context.Context, ids []lockstore.SessionID) (map[lockstore.SessionID]bool, error) {
	parsed := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		var err error
		if parsed[i], err = sessionUUID(id); err != nil {
			return nil, err
		}
	}
	live := make(map[uuid.UUID]bool, len(ids))
	err := s.read(ctx, "look at sessions", liveSessionsQuery, []any{parsed}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var id pgtype.UUID
			err := rows.Scan(&id)
			live[id.Bytes] = true
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	answer := make(map[lockstore.SessionID]bool, len(ids))
	for i, id := range ids {
		answer[id] = live[parsed[i]]
	}
	return answer, nil
}

const doingCheck = "look whether lockdb grants"

// CheckGrants asks again, on one connection, what Open asks before it grants: that
// this is a primary, that the guards of the token order are in force, that the gate
// is open and that no sign of a rewind has fired. It returns what Open does.
func (s *Store) CheckGrants(ctx context.Context) error {
	conn, err := s.acquireConn(ctx, doingCheck)
	if err != nil {
		return err
	}
	defer conn.Release()
	q := oneTrip{Conn: conn.Conn()}
	facts, err := instance.Read(ctx, q)
	if err != nil {
		return &lockstore.UnreachableError{Doing: doingCheck, Err: err}
	}
	if facts.InRecovery {
		s.pool.Reset()
		return lockstore.ErrNotPrimary
	}
	for _, check := range []func() error{
		func() error { return checkGuards(ctx, q) },
		func() error { return checkSequence(ctx, q) },
		func() error { return checkGate(ctx, conn.Conn()) },
		func() error { return s.checkSetBack(ctx, conn.Conn()) },
	} {
		err := check()
		_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
		_, unsafe := errors.AsType[*lockstore.UnsafeError](err)
		switch {
		case err == nil:
		case !closed && !unsafe && pgtx.Unanswered(err):
			return &lockstore.UnreachableError{Doing: doingCheck, Err: err}
		default:
			return err
		}
	}
	return nil
}
