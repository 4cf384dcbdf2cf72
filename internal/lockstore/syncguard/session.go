package syncguard

import (
	"context"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// backend is this backend's name in configuration and output.
const backend = "syncguard"

// unsupported names the backend and says why it lacks what was asked for.
func unsupported(what, why string) error {
	return fmt.Errorf("%s: %w (%s): %s", what, lockstore.ErrUnsupported, backend, why)
}

func noSessions(what string) error {
	return unsupported(what, "a SyncGuard lock hangs on no session, only on its own lease")
}

// CreateSession answers ErrUnsupported.
func (s *Store) CreateSession(context.Context, string, time.Duration) (lockstore.Session, error) {
	return lockstore.Session{}, noSessions("create session")
}

// Heartbeat answers ErrUnsupported.
func (s *Store) Heartbeat(context.Context, lockstore.SessionID, time.Duration) (lockstore.Session, error) {
	return lockstore.Session{}, noSessions("heartbeat session")
}

// EndSession answers ErrUnsupported.
func (s *Store) EndSession(context.Context, lockstore.SessionID) (int, error) {
	return 0, noSessions("end session")
}

// ReapSessions answers ErrUnsupported.
func (s *Store) ReapSessions(context.Context, int) (lockstore.Reaped, error) {
	return lockstore.Reaped{}, noSessions("reap sessions")
}

// Session answers ErrUnsupported.
func (s *Store) Session(context.Context, lockstore.SessionID) (lockstore.Session, error) {
	return lockstore.Session{}, noSessions("show session")
}

// Sessions answers ErrUnsupported.
func (s *Store) Sessions(context.Context, lockstore.SessionFilter) ([]lockstore.Session, error) {
	return nil, noSessions("list sessions")
}

const whyNoBatch = "SyncGuard's clients wait for each other key by key, and a batch would hold many keys meanwhile"

// AcquireBatch answers ErrUnsupported.
func (s *Store) AcquireBatch(context.Context, []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	return nil, unsupported("acquire many locks", whyNoBatch)
}

// ReleaseBatch answers ErrUnsupported.
func (s *Store) ReleaseBatch(context.Context, []lockstore.GrantRef) ([]lockstore.Release, error) {
	return nil, unsupported("release many locks", whyNoBatch)
}

// GrantHistory answers ErrUnsupported.
func (s *Store) GrantHistory(context.Context, lockstore.Token) (lockstore.GrantRecord, error) {
	return lockstore.GrantRecord{}, unsupported("explain token", "SyncGuard counts fences per key and keeps no journal of them")
}
