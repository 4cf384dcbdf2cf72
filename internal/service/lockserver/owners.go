package lockserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// mostRemembered bounds each generation of what is remembered of sessions and
// grants.
const mostRemembered = 32768

// memory remembers the owner of what never changes hands: a session's, a grant's.
// It forgets what was not asked for lately.
type memory[K comparable] struct {
	mu       sync.Mutex
	new, old map[K]string
}

func newMemory[K comparable]() *memory[K] { return &memory[K]{new: map[K]string{}} }

func (m *memory[K]) put(key K, owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, owner)
}

func (m *memory[K]) keep(key K, owner string) {
	if len(m.new) >= mostRemembered {
		m.new, m.old = map[K]string{}, m.new
	}
	m.new[key] = owner
}

func (m *memory[K]) get(key K) (owner string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if owner, known = m.new[key]; known {
		return owner, true
	}
	if owner, known = m.old[key]; known {
		m.keep(key, owner)
	}
	return owner, known
}

// ownerFor is the owner that a session of this caller gets in the database: the
// caller's name, a slash, and the owner asked for. Names hold no slash, so that
// nobody's is the beginning of another's (K-2.12).
func ownerFor(caller httpd.Caller, owner string) string {
	if caller.Name == "" {
		return owner
	}
	return caller.Name + "/" + owner
}

// mine tells whether an owner in the database is this caller's.
func mine(caller httpd.Caller, owner string) bool {
	return caller.Name == "" || strings.HasPrefix(owner, caller.Name+"/")
}

// may tells whether the caller has a scope. On loopback without keys everybody has
// them all.
func may(caller httpd.Caller, scope httpd.Scope) bool {
	return caller.Name == "" || slices.Contains(caller.Scopes, scope)
}

// sessionOwner returns the owner of a session of the caller's. Another caller's is
// lockstore.ErrSessionLost, as one that does not exist is.
func (s *Service) sessionOwner(ctx context.Context, id lockstore.SessionID) (string, error) {
	caller := httpd.CallerOf(ctx)
	owner, known := s.sessions.get(id)
	if !known {
		var session lockstore.Session
		err := s.keeping(ctx, func(ctx context.Context, store Backend) (err error) {
			session, err = store.Session(ctx, id)
			return err
		})
		switch {
		case errors.Is(err, lockstore.ErrNotFound):
			return "", fmt.Errorf("session %s: %w", id.Masked(), lockstore.ErrSessionLost)
		case err != nil:
			return "", err
		}
		owner = session.Owner
		s.sessions.put(id, owner)
	}
	if !mine(caller, owner) {
		return "", fmt.Errorf("session %s: %w", id.Masked(), lockstore.ErrSessionLost)
	}
	return owner, nil
}

// ownsGrant tells whether a grant is the caller's: its owner begins with the
// caller's name. Nobody with another credential gives a grant back by knowing its
// key and token alone. One that does not stand is nobody's.
func (s *Service) ownsGrant(ctx context.Context, ref lockstore.GrantRef, session lockstore.SessionID) (bool, error) {
	caller := httpd.CallerOf(ctx)
	if caller.Name == "" {
		return true, nil
	}
	if session != "" {
		if _, err := s.sessionOwner(ctx, session); errors.Is(err, lockstore.ErrSessionLost) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	owner, known := s.grants.get(ref)
	if !known {
		var seen map[string]lockstore.Entry
		err := s.keeping(ctx, func(ctx context.Context, store Backend) (err error) {
			seen, err = store.Look(ctx, []string{ref.Key})
			return err
		})
		if err != nil {
			return false, err
		}
		entry, stands := seen[ref.Key]
		if !stands || entry.Token != ref.Token || session != "" && entry.Session != session {
			return false, nil
		}
		owner = entry.Owner
		s.grants.put(ref, owner)
	}
	return mine(caller, owner), nil
}
