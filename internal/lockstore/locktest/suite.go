package locktest

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Backend is what the suite needs to know of a store under test.
type Backend struct {
	// Declared is what the backend's documentation declares.
	Declared lockstore.Capabilities
	// Database makes an empty place for one clause and returns how to open a
	// client of it. Each client is independent, as another process would be.
	Database func(t *testing.T) func(t *testing.T) lockstore.Store
	// ShortTTL is the shortest lease that the backend ends in time; 0 is
	// lockstore.MinTTL.
	ShortTTL time.Duration
}

// Run runs every clause against the backend, each on a place of its own.
func Run(t *testing.T, backend Backend) {
	t.Helper()
	backend.ShortTTL = cmp.Or(backend.ShortTTL, lockstore.MinTTL)
	for _, clause := range clauses() {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			client := backend.Database(t)
			clause.check(&suite{TB: t, ctx: t.Context, Backend: backend, store: client(t), other: client(t), patience: time.Minute})
		})
	}
}

// clause is one numbered promise of the package comment.
type clause struct {
	name  string
	check func(*suite)
}

func clauses() []clause {
	return []clause{
		{"L1 declaration", declaration},
		{"L2 grant", grant},
		{"L3 exclusion", exclusion},
		{"L4 rising tokens", risingTokens},
		{"L5 tokens over all keys", tokensOverKeys},
		{"L6 re-entry", reEntry},
		{"L7 sessions of one owner", sessionsOfOneOwner},
		{"L8 lapse", lapse},
		{"L9 promises", promises},
		{"L10 release", release},
		{"L11 heartbeat", heartbeat},
		{"L12 session over", sessionOver},
		{"L13 session death", sessionDeath},
		{"L14 batch", batch},
		{"L15 revoke", revoke},
		{"L16 revoke with session", revokeWithSession},
		{"L17 bulk revoke", bulkRevoke},
		{"L18 prune", prune},
		{"L19 lists", lists},
		{"L20 audit", audit},
		{"L21 journal", journal},
		{"L22 wrong input", wrongInput},
		{"L23 wait", waiting},
		{"L24 contention", contention},
		{"L25 context over", contextOver},
		{"L26 audit verifies", auditVerifies},
	}
}

// suite is one clause at work: two clients of one place.
type suite struct {
	testing.TB
	Backend
	ctx          func() context.Context
	store, other lockstore.Store
	// patience bounds every wait.
	patience time.Duration
}

// session opens a session that outlives the clause; none where there are none.
func (s *suite) session(owner string) lockstore.SessionID {
	s.Helper()
	return s.shortSession(owner, time.Hour)
}

func (s *suite) shortSession(owner string, ttl time.Duration) lockstore.SessionID {
	s.Helper()
	if !s.Declared.Sessions {
		return ""
	}
	session, err := s.store.CreateSession(s.ctx(), owner, ttl)
	if err != nil {
		s.Fatalf("create a session: %v", err)
	}
	return session.ID
}

// kept is the owner as the backend keeps it.
func (s *suite) kept(owner string) string {
	if s.Declared.Ownerless {
		return ""
	}
	return owner
}

// holder is who asks for locks.
type holder struct {
	owner   string
	session lockstore.SessionID
}

func (s *suite) holder(owner string) holder { return holder{owner, s.session(owner)} }

func (h holder) wants(key string, ttl time.Duration) lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: key, Owner: h.owner, Session: h.session, TTL: ttl}
}

func (s *suite) acquire(h holder, key string, ttl time.Duration) lockstore.Grant {
	s.Helper()
	grant, err := s.store.Acquire(s.ctx(), h.wants(key, ttl))
	if err != nil {
		s.Fatalf("acquire %s by %s: %v", key, h.owner, err)
	}
	return grant
}

// lapsed is a grant of a holder that is over. Without leases of their own, locks
// lapse with their session.
func (s *suite) lapsed(owner, key string) lockstore.Grant {
	s.Helper()
	var grant lockstore.Grant
	if s.Declared.OwnTTL {
		grant = s.acquire(s.holder(owner), key, s.ShortTTL)
	} else {
		_, grant = s.short(owner, key, s.ShortTTL)
	}
	s.untilLapsed(key)
	return grant
}

// short is a holder whose session soon lapses, and its grant: both are asked for again
// where the session did not live until then.
func (s *suite) short(owner, key string, ttl time.Duration) (h holder, grant lockstore.Grant) {
	s.Helper()
	s.until("a short session lives until it is granted "+key, func() (bool, error) {
		h = holder{owner, s.shortSession(owner, s.ShortTTL)}
		var err error
		if grant, err = s.store.Acquire(s.ctx(), h.wants(key, ttl)); errors.Is(err, lockstore.ErrSessionLost) {
			return false, nil
		}
		return err == nil, err
	})
	return h, grant
}

func (s *suite) untilLapsed(key string) {
	s.Helper()
	s.until("the lease of "+key+" lapses", func() (bool, error) {
		entry, err := s.store.Show(s.ctx(), key)
		if errors.Is(err, lockstore.ErrNotFound) {
			return true, nil
		}
		return entry.Expired, err
	})
}

// until asks again and again, and fails when the answer is never yes.
func (s *suite) until(what string, ask func() (bool, error)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx(), s.patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ask()
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: it never did", what)
		case <-tick.C:
		}
	}
}

func (s *suite) release(key string, token lockstore.Token, stale bool) {
	s.Helper()
	got, err := s.store.Release(s.ctx(), key, token)
	if err != nil || got.Stale != stale || got.Key != key || got.Token != token {
		s.Errorf("release %s with token %s: %+v, %v, want stale %t", key, token, got, err, stale)
	}
}

func (s *suite) lost(key string, token lockstore.Token) {
	s.Helper()
	if got, err := s.store.Renew(s.ctx(), key, token, time.Minute); !errors.Is(err, lockstore.ErrLockLost) {
		s.Errorf("renew %s with token %s: %+v, %v, want ErrLockLost", key, token, got, err)
	}
}

// keptOut wants an acquire to be refused in the name of a grant that stands.
func (s *suite) keptOut(h holder, standing lockstore.Grant) {
	s.Helper()
	got, err := s.other.Acquire(s.ctx(), h.wants(standing.Key, time.Minute))
	held, ok := errors.AsType[*lockstore.HeldError](err)
	if !ok || held.Key != standing.Key || held.Owner != standing.Owner || held.Token != standing.Token {
		s.Errorf("acquire %s by %s: %+v, %v (%+v), want held by %s with token %s", standing.Key, h.owner, got, err, held, standing.Owner, standing.Token)
	}
}

// stands wants the key to be shown with this grant.
func (s *suite) stands(grant lockstore.Grant) {
	s.Helper()
	entry, err := s.other.Show(s.ctx(), grant.Key)
	if err != nil || entry.Token != grant.Token || entry.Owner != grant.Owner || entry.Session != grant.Session || entry.Expired {
		s.Errorf("show %s: %+v, %v, want the grant %+v", grant.Key, entry, err, grant)
	}
}

func (s *suite) free(key string) {
	s.Helper()
	if entry, err := s.other.Show(s.ctx(), key); !errors.Is(err, lockstore.ErrNotFound) {
		s.Errorf("show %s: %+v, %v, want ErrNotFound", key, entry, err)
	}
}

// above wants the later of two grants of a key to have the higher token.
func (s *suite) above(later, earlier lockstore.Grant, what string) {
	s.Helper()
	if later.Token <= earlier.Token {
		s.Errorf("%s: token %s, want above %s", what, later.Token, earlier.Token)
	}
}

// unsupported wants each call to say that the backend does not have it.
func (s *suite) unsupported(calls map[string]error) {
	s.Helper()
	for name, err := range calls {
		if !errors.Is(err, lockstore.ErrUnsupported) {
			s.Errorf("%s: %v, want ErrUnsupported, as the backend declares", name, err)
		}
	}
}
