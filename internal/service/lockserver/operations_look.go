package lockserver

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

type listInput struct {
	Owner       string `query:"owner" doc:"Only locks of this owner, as it stands in the database"`
	Prefix      string `query:"prefix" doc:"Only keys that begin so"`
	SessionID   string `query:"session_id" hidden:"true"` // refused by Resolve
	Expired     bool   `query:"expired" doc:"Only lapsed ones"`
	Limit       int    `query:"limit" minimum:"0" doc:"At most so many; 0 is all"`
	ShowSession bool   `query:"show_session" doc:"Session ids in full; they are secrets, and it takes the scope operate"`
}

// pathSessionLocks lists the locks under a session.
const pathSessionLocks = "/v1/sessions/locks"

// Resolve refuses a session's id in the query, and tells where it goes instead: it is a
// secret (K-2.12), and addresses are logged by whatever stands on the way.
func (listInput) Resolve(ctx huma.Context) []error {
	if in := ctx.URL(); !in.Query().Has("session_id") {
		return nil
	}
	return []error{&huma.ErrorDetail{Location: "query.session_id", Message: "a session id is a secret, and addresses are logged; POST " + pathSessionLocks + " takes it in its body"}}
}

type showInput struct {
	Key         string `query:"key" required:"true" doc:"Lock key"`
	ShowSession bool   `query:"show_session" doc:"The session id in full; it takes the scope operate"`
}

type pulseInput struct {
	Since int64 `query:"since" minimum:"0" maximum:"9007199254740992" doc:"Count the grants with a token above this one: last of the answer before"`
}

type watchInput struct {
	Owner  string `query:"owner" doc:"Only locks of this owner"`
	Prefix string `query:"prefix" doc:"Only keys that begin so"`
}

// Alive is sent where nothing changes, so that either end sees that the other is
// there.
type Alive struct {
	At lockapi.Time `json:"at"`
}

func aliveNow(now time.Time) Alive { return Alive{lockapi.NewTime(lockstore.Time{Time: now})} }

// aliveEvery is how often.
const aliveEvery = 15 * time.Second

func (s *Service) registerLooks(api huma.API) {
	huma.Get(api, "/v1/locks", s.list, operation("list-locks", "List locks, by key", httpd.Audit))
	huma.Post(api, pathSessionLocks, s.listOfSession, operation("list-session-locks", "List the locks under one session, by key", httpd.Audit))
	huma.Get(api, "/v1/locks/show", s.show, operation("show-lock", "Show one lock, and who blocks it", httpd.Audit, httpd.Acquire))
	huma.Get(api, "/v1/locks/pulse", s.pulse, operation("pulse", "Tell how busy the store is: tokens drawn, grants, waits", httpd.Audit))
	huma.Get(api, "/v1/backend", s.backend, operation("show-backend", "Tell what keeps the locks, and how it differs", httpd.Acquire, httpd.Audit, httpd.Operate))
	op := huma.Operation{Method: "GET", Path: "/v1/locks/watch"}
	operation("watch-locks", "Watch locks: what stands, then each change, until the service stops", httpd.Audit)(&op)
	sse.Register(api, op, map[string]any{"change": lockapi.Change{}, "alive": Alive{}}, s.watchLocks)
}

func (s *Service) list(ctx context.Context, in *listInput) (*body[lockapi.EntryList], error) {
	show, err := showSessions(ctx, in.ShowSession)
	if err != nil {
		return nil, err
	}
	return s.listed(ctx, lockstore.Filter{Owner: in.Owner, Prefix: in.Prefix, Expired: in.Expired, Limit: in.Limit}, show)
}

func (s *Service) listOfSession(ctx context.Context, in *body[lockapi.SessionLocksRequest]) (*body[lockapi.EntryList], error) {
	show, err := showSessions(ctx, in.Body.ShowSession)
	if err != nil {
		return nil, err
	}
	id := lockstore.SessionID(in.Body.SessionID)
	if err := lockstore.ValidSessionID(id); err != nil { // an empty one would be every session's
		return nil, s.refusal(err)
	}
	return s.listed(ctx, lockstore.Filter{Owner: in.Body.Owner, Prefix: in.Body.Prefix, Session: id, Expired: in.Body.Expired, Limit: in.Body.Limit}, show)
}

func (s *Service) listed(ctx context.Context, filter lockstore.Filter, show bool) (*body[lockapi.EntryList], error) {
	var entries []lockstore.Entry
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		entries, err = store.List(ctx, filter)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	s.countWaiters(entries)
	return &body[lockapi.EntryList]{newEntryList(entries, show)}, nil
}

// countWaiters adds those who stand in this server's queues to the backend's own.
func (s *Service) countWaiters(entries []lockstore.Entry) {
	waiters := s.engine.Waiters()
	for i := range entries {
		entries[i].Waiters += waiters[entries[i].Key]
	}
}

func newEntryList(entries []lockstore.Entry, show bool) lockapi.EntryList {
	list := lockapi.EntryList{Locks: make([]lockapi.Entry, len(entries))}
	for i, entry := range entries {
		list.Locks[i] = lockapi.NewEntry(entry, show)
	}
	return list
}

func (s *Service) show(ctx context.Context, in *showInput) (*body[lockapi.Entry], error) {
	show, err := showSessions(ctx, in.ShowSession)
	if err != nil {
		return nil, err
	}
	var entry lockstore.Entry
	err = s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		entry, err = store.Show(ctx, in.Key)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	entry.Waiters += s.engine.Waiters()[entry.Key]
	return &body[lockapi.Entry]{lockapi.NewEntry(entry, show)}, nil
}

func (s *Service) pulse(ctx context.Context, in *pulseInput) (*body[lockapi.Pulse], error) {
	var pulse lockstore.Pulse
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		meter, is := store.(lockstore.Meter)
		if !is {
			return fmt.Errorf("count grants: %w", lockstore.ErrUnsupported)
		}
		pulse, err = meter.Pulse(ctx, lockstore.Token(in.Since))
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.Pulse]{lockapi.NewPulse(pulse)}, nil
}

// backend asks nobody: a store declares what it is, lockdb also while it is away.
func (s *Service) backend(context.Context, *struct{}) (*body[lockapi.Backend], error) {
	if s.opts.Open == nil {
		return &body[lockapi.Backend]{lockapi.NewBackend((*postgres.Store)(nil).Capabilities())}, nil
	}
	store, err := s.link.store()
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.Backend]{lockapi.NewBackend(store.Capabilities())}, nil
}

// watchLocks tells each change until the watcher goes, falls behind, or the
// service stops.
func (s *Service) watchLocks(ctx context.Context, in *watchInput, send sse.Sender) {
	events, leave := s.watch.join(lockstore.Filter{Owner: in.Owner, Prefix: in.Prefix})
	defer leave()
	// The first piece of the answer: a watch that nothing happens to has begun.
	if send.Data(aliveNow(time.Now())) != nil {
		return
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-httpd.Draining(ctx):
			return
		case now := <-alive.C:
			err = send.Data(aliveNow(now))
		case change, ok := <-events:
			if !ok {
				return
			}
			err = send.Data(lockapi.Change{Change: change.Kind, Entry: lockapi.NewEntry(change.Entry, false)})
		}
		if err != nil {
			return
		}
	}
}
