package locktest

import (
	"errors"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func heartbeat(s *suite) {
	if !s.Declared.Sessions {
		_, err := s.store.Heartbeat(s.ctx(), "none", time.Minute)
		s.unsupported(map[string]error{"Heartbeat": err})
		return
	}
	created, err := s.store.CreateSession(s.ctx(), "alice", time.Minute)
	if err != nil || created.ID == "" || created.Owner != "alice" {
		s.Fatalf("create a session: %+v, %v", created, err)
	}
	longer, err := s.store.Heartbeat(s.ctx(), created.ID, time.Hour)
	if err != nil || !longer.ExpiresAt.After(created.ExpiresAt.Time) {
		s.Errorf("a heartbeat: %+v, %v, want an end after %s", longer, err, created.ExpiresAt)
	}
	if _, err := s.store.Heartbeat(s.ctx(), created.ID, time.Second); err != nil {
		s.Errorf("a shorter heartbeat: %v", err)
	}
	if now, err := s.other.Session(s.ctx(), created.ID); err != nil || now.Remaining < time.Minute {
		s.Errorf("after a shorter heartbeat: %+v, %v, want nothing cut", now, err)
	}
	over := s.overSession("bob")
	if got, err := s.store.Heartbeat(s.ctx(), over, time.Minute); !errors.Is(err, lockstore.ErrSessionLost) {
		s.Errorf("a heartbeat of a lapsed session: %+v, %v, want ErrSessionLost", got, err)
	}
}

// overSession is a session that has lapsed.
func (s *suite) overSession(owner string) lockstore.SessionID {
	s.Helper()
	id := s.shortSession(owner, s.ShortTTL)
	s.until("a session lapses", func() (bool, error) {
		session, err := s.store.Session(s.ctx(), id)
		if errors.Is(err, lockstore.ErrNotFound) {
			return true, nil
		}
		return session.Remaining <= 0, err
	})
	return id
}

func sessionOver(s *suite) {
	if !s.Declared.Sessions {
		_, one := s.store.Session(s.ctx(), "none")
		_, all := s.store.Sessions(s.ctx(), lockstore.SessionFilter{})
		s.unsupported(map[string]error{"Session": one, "Sessions": all})
		return
	}
	ended := s.session("alice")
	if _, err := s.store.EndSession(s.ctx(), ended); err != nil {
		s.Fatal(err)
	}
	for name, id := range map[string]lockstore.SessionID{"ended": ended, "lapsed": s.overSession("alice")} {
		if got, err := s.store.Acquire(s.ctx(), holder{"alice", id}.wants("k", time.Minute)); !errors.Is(err, lockstore.ErrSessionLost) {
			s.Errorf("acquire under a session that has %s: %+v, %v, want ErrSessionLost", name, got, err)
		}
	}
	if _, err := s.other.Session(s.ctx(), ended); !errors.Is(err, lockstore.ErrNotFound) {
		s.Errorf("an ended session: %v, want ErrNotFound", err)
	}
	s.free("k")
}

func sessionDeath(s *suite) {
	if !s.Declared.Sessions {
		_, ended := s.store.EndSession(s.ctx(), "none")
		_, reaped := s.store.ReapSessions(s.ctx(), 1)
		s.unsupported(map[string]error{"EndSession": ended, "ReapSessions": reaped})
		return
	}
	alice, bob := s.holder("alice"), s.holder("bob")
	first := s.acquire(alice, "a", time.Hour)
	s.acquire(alice, "b", time.Hour)
	kept := s.acquire(bob, "c", time.Hour)
	if session, err := s.other.Session(s.ctx(), alice.session); err != nil || session.Locks != 2 || session.Owner != "alice" {
		s.Errorf("the session: %+v, %v, want 2 locks", session, err)
	}
	if n, err := s.other.EndSession(s.ctx(), alice.session); err != nil || n != 2 {
		s.Errorf("end: %d locks, %v, want 2", n, err)
	}
	if _, err := s.store.EndSession(s.ctx(), alice.session); !errors.Is(err, lockstore.ErrNotFound) {
		s.Errorf("end again: %v, want ErrNotFound", err)
	}
	s.lost("a", first.Token)
	s.free("b")
	s.above(s.acquire(bob, "a", time.Hour), first, "after the session's end")

	short, reaped := s.short("carol", "d", time.Hour)
	s.until("a session is reaped", func() (bool, error) {
		if _, err := s.store.ReapSessions(s.ctx(), 10); err != nil {
			return false, err
		}
		_, err := s.store.Session(s.ctx(), short.session)
		if errors.Is(err, lockstore.ErrNotFound) {
			return true, nil
		}
		return false, err
	})
	s.above(s.acquire(bob, "d", time.Hour), reaped, "after reaping")
	s.stands(kept)
	if _, err := s.store.ReapSessions(s.ctx(), 0); !errors.Is(err, lockstore.ErrInvalid) {
		s.Errorf("reap none: %v, want ErrInvalid", err)
	}
}

func batch(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	params := []lockstore.AcquireParams{alice.wants("z", time.Minute), alice.wants("held", time.Minute), alice.wants("a", time.Minute)}
	if !s.Declared.Batches {
		_, acquired := s.store.AcquireBatch(s.ctx(), params)
		_, released := s.store.ReleaseBatch(s.ctx(), []lockstore.GrantRef{{Key: "z", Token: 1}})
		s.unsupported(map[string]error{"AcquireBatch": acquired, "ReleaseBatch": released})
		s.free("z")
		return
	}
	standing := s.acquire(bob, "held", time.Minute)
	results, err := s.store.AcquireBatch(s.ctx(), params)
	if err != nil || len(results) != 3 {
		s.Fatalf("a batch: %+v, %v", results, err)
	}
	if _, held := errors.AsType[*lockstore.HeldError](results[1].Err); !held || results[1].Grant.Token != 0 {
		s.Errorf("the held key: %+v", results[1])
	}
	for _, i := range []int{0, 2} {
		if results[i].Err != nil || results[i].Grant.Key != params[i].Key {
			s.Errorf("key %s: %+v", params[i].Key, results[i])
			continue
		}
		s.stands(results[i].Grant)
	}
	s.stands(standing)
	if _, err := s.store.AcquireBatch(s.ctx(), append(params, params[0])); !errors.Is(err, lockstore.ErrInvalid) {
		s.Errorf("a key twice: %v, want ErrInvalid", err)
	}
	refs := []lockstore.GrantRef{{Key: "z", Token: results[0].Grant.Token}, {Key: "held", Token: results[0].Grant.Token}, {Key: "z", Token: results[0].Grant.Token}}
	released, err := s.store.ReleaseBatch(s.ctx(), refs)
	if err != nil || len(released) != 3 || released[0].Stale || !released[1].Stale || !released[2].Stale {
		s.Errorf("release a batch: %+v, %v, want the first alone not stale", released, err)
	}
	s.free("z")
	s.stands(standing)
}
