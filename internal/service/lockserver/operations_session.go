package lockserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

type createSessionInput struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"Makes it safe to repeat: the same key gets the same session from the replica that saw it, for ten minutes"`
	Body           lockapi.CreateSessionRequest
}

type sessionsInput struct {
	Owner       string `query:"owner" doc:"Only sessions of this owner, as it stands in the database"`
	Expired     bool   `query:"expired" doc:"Only lapsed ones"`
	Limit       int    `query:"limit" minimum:"0" doc:"At most so many; 0 is all"`
	ShowSession bool   `query:"show_session" doc:"Session ids in full; they are secrets, and it takes the scope operate"`
}

func (s *Service) registerSessions(api huma.API) {
	created := func(op *huma.Operation) { op.DefaultStatus = http.StatusCreated }
	huma.Post(api, "/v1/sessions", s.createSession, operation("create-session", "Open a session", httpd.Acquire), created)
	huma.Post(api, "/v1/sessions/heartbeat", s.heartbeat, operation("heartbeat-session", "Extend a session, never shorten it", httpd.Acquire))
	huma.Post(api, "/v1/sessions/end", s.endSession, operation("end-session", "End a session, and its locks with it", httpd.Acquire))
	huma.Post(api, "/v1/sessions/show", s.showSession, operation("show-session", "Show one session", httpd.Audit, httpd.Acquire))
	huma.Get(api, "/v1/sessions", s.listSessions, operation("list-sessions", "List sessions, by creation", httpd.Audit))
	huma.Post(api, "/v1/sessions/reap", s.reapSessions, operation("reap-sessions", "End lapsed sessions now", httpd.Operate))
}

func (s *Service) createSession(ctx context.Context, in *createSessionInput) (*body[lockapi.Session], error) {
	caller := httpd.CallerOf(ctx)
	ttl, err := lockapi.Duration("ttl_ms", in.Body.TTLMS)
	if err := errors.Join(err, lockstore.ValidOwner(in.Body.Owner)); err != nil {
		return nil, s.refusal(err)
	}
	owner := ownerFor(caller, in.Body.Owner)
	session, err := s.once.do(ctx, caller.Name, in.IdempotencyKey, owner, ttl, func(ctx context.Context) (session lockstore.Session, err error) {
		err = s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
			session, err = store.CreateSession(ctx, owner, ttl)
			return err
		})
		return session, err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	s.sessions.put(session.ID, owner)
	return &body[lockapi.Session]{lockapi.NewSession(session, true)}, nil
}

func (s *Service) heartbeat(ctx context.Context, in *body[lockapi.HeartbeatRequest]) (*body[lockapi.Session], error) {
	id := lockstore.SessionID(in.Body.SessionID)
	ttl, err := lockapi.Duration("ttl_ms", in.Body.TTLMS)
	if err != nil {
		return nil, s.refusal(err)
	}
	owner, err := s.sessionOwner(ctx, id)
	var session lockstore.Session
	if err == nil {
		err = s.keeping(ctx, func(ctx context.Context, store Backend) (err error) {
			session, err = store.Heartbeat(ctx, id, ttl)
			return err
		})
	}
	if err != nil {
		s.countLost(err)
		return nil, s.refusal(err)
	}
	session.Owner = owner
	return &body[lockapi.Session]{lockapi.NewSession(session, true)}, nil
}

func (s *Service) endSession(ctx context.Context, in *body[lockapi.SessionRequest]) (*body[lockapi.EndedSession], error) {
	id := lockstore.SessionID(in.Body.SessionID)
	locks := 0
	_, err := s.sessionOwner(ctx, id)
	if errors.Is(err, lockstore.ErrSessionLost) {
		return nil, s.refusal(lockstore.ErrNotFound)
	}
	if err == nil {
		err = s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
			locks, err = store.EndSession(ctx, id)
			return err
		})
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	if locks > 0 {
		s.engine.LookNow()
	}
	return &body[lockapi.EndedSession]{lockapi.EndedSession{Locks: locks}}, nil
}

func (s *Service) showSession(ctx context.Context, in *body[lockapi.SessionRequest]) (*body[lockapi.Session], error) {
	id, caller := lockstore.SessionID(in.Body.SessionID), httpd.CallerOf(ctx)
	var session lockstore.Session
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		session, err = store.Session(ctx, id)
		return err
	})
	// Whoever looks after all sessions may look; the others see their own.
	if err == nil && !mine(caller, session.Owner) && !may(caller, httpd.Audit) {
		err = fmt.Errorf("session %s: %w", id.Masked(), lockstore.ErrNotFound) // as the store says it
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.Session]{lockapi.NewSession(session, true)}, nil
}

func (s *Service) listSessions(ctx context.Context, in *sessionsInput) (*body[lockapi.SessionList], error) {
	var sessions []lockstore.Session
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		sessions, err = store.Sessions(ctx, lockstore.SessionFilter{Owner: in.Owner, Expired: in.Expired, Limit: in.Limit})
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	show, err := showSessions(ctx, in.ShowSession)
	if err != nil {
		return nil, err
	}
	list := lockapi.SessionList{Sessions: make([]lockapi.Session, len(sessions))}
	for i, session := range sessions {
		list.Sessions[i] = lockapi.NewSession(session, show)
	}
	return &body[lockapi.SessionList]{list}, nil
}

func (s *Service) reapSessions(ctx context.Context, in *body[lockapi.ReapRequest]) (*body[lockapi.Reaped], error) {
	var reaped lockstore.Reaped
	err := s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
		reaped, err = store.ReapSessions(ctx, in.Body.Limit)
		return err
	})
	s.reaped(reaped, nil)
	if err != nil && reaped == (lockstore.Reaped{}) {
		return nil, s.refusal(err)
	}
	return &body[lockapi.Reaped]{lockapi.Reaped(reaped)}, nil
}

// countLost counts a session that was found gone.
func (s *Service) countLost(err error) {
	if errors.Is(err, lockstore.ErrSessionLost) {
		s.metrics.SessionLost.Inc()
	}
}

// durations reads several counts of milliseconds.
func durations(first, second string, a, b int64) (x, y time.Duration, err error) {
	x, errX := lockapi.Duration(first, a)
	y, errY := lockapi.Duration(second, b)
	return x, y, errors.Join(errX, errY)
}
