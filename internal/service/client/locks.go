package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// The longest pauses of the circuits: a renewal has less time than others.
const (
	workCircuit = 5 * time.Second
	keepCircuit = 500 * time.Millisecond
)

// Locks is a lockstore.Store over lock-server's HTTP interface.
type Locks struct {
	// work is for everything but renewals and heartbeats, which have keep to themselves.
	work, keep *conn
	// masked tells that the credential may not see session ids: that takes the scope
	// operate (K-2.12).
	masked atomic.Bool
	// owners are those of sessions that were made or seen here.
	owners sync.Map // of lockstore.SessionID, string
	known  atomic.Int64
	// capabilities are what Learn was told, nil before that.
	capabilities atomic.Pointer[lockstore.Capabilities]
}

var (
	_ lockstore.Store = (*Locks)(nil)
	_ lockstore.Meter = (*Locks)(nil)
	_ Keeper          = (*Locks)(nil)
)

// NewLocks is a client of a lock-server. Nothing is sent yet. It returns
// lockstore.ErrInvalid for options that cannot be right.
func NewLocks(opts Options) (*Locks, error) {
	work, err := opts.connect(workCircuit)
	if err != nil {
		return nil, err
	}
	keep, err := opts.connect(keepCircuit)
	if err != nil {
		return nil, err
	}
	return &Locks{work: work, keep: keep}, nil
}

// Close closes the connections that nobody uses.
func (l *Locks) Close() {
	l.work.http.CloseIdleConnections()
	l.keep.http.CloseIdleConnections()
}

// call sends a request and turns what comes back into the store's error. doing is a
// bare verb phrase. changing tells that a lost answer leaves the outcome unknown.
func call(ctx context.Context, c *conn, doing string, changing bool, r request) error {
	_, err := c.do(ctx, r)
	if err == nil {
		return nil
	}
	if lost, ok := errors.AsType[*lostError](err); ok {
		err := fmt.Errorf("lock-server at %s: %w", c.host(), lost.err)
		if lost.sent && changing {
			return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
		}
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	}
	if p, ok := problem.From(err); ok {
		if noSuchPath(p) {
			return fmt.Errorf("%s: %w: the service at %s is no lock-server, or another version of it: it has no %s", doing, lockstore.ErrInvalid, c.host(), r.path)
		}
		return lockapi.Error(p)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// noSuchPath tells a path that is not there from a lock that is not: the one must never
// be taken for the other.
func noSuchPath(p *problem.Problem) bool {
	return p.Status == http.StatusNotFound && p.Code == problem.Usage
}

func (l *Locks) get(ctx context.Context, doing, path string, query url.Values, out any) error {
	return call(ctx, l.work, doing, false, request{method: http.MethodGet, path: path, query: query, out: out, safe: true})
}

// look is get of what has session ids in it: in full, as the store itself shows them,
// unless the credential may not.
func (l *Locks) look(ctx context.Context, doing, path string, q query, out any) error {
	return l.unmasked(func(show bool) error {
		return l.get(ctx, doing, path, url.Values(maps.Clone(q).flag("show_session", show)), out)
	})
}

// unmasked asks for session ids in full, and again without them where the credential
// may not have them.
func (l *Locks) unmasked(ask func(show bool) error) error {
	if l.masked.Load() {
		return ask(false)
	}
	err := ask(true)
	if p, refused := problem.From(err); refused && p.Code == problem.Forbidden {
		l.masked.Store(true)
		return ask(false)
	}
	return err
}

// CreateSession opens a session. It may be repeated: the server knows the request by
// its key.
func (l *Locks) CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	if err := errors.Join(lockstore.ValidOwner(owner), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Session{}, err
	}
	var answer lockapi.Session
	var sent time.Time
	err := call(ctx, l.work, "create a session", true, request{
		method: http.MethodPost, path: "/v1/sessions", header: http.Header{lockapi.IdempotencyHeader: {uuid.NewString()}},
		in: lockapi.CreateSessionRequest{Owner: owner, TTLMS: lockapi.Milliseconds(ttl)}, out: &answer, safe: true, sending: first(&sent),
	})
	made, err := session(answer, sent, err)
	l.owned(made)
	return made, err
}

// Heartbeat extends a live session, never shortens it. It may be repeated.
func (l *Locks) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	if err := errors.Join(lockstore.ValidSessionID(id), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Session{}, err
	}
	var answer lockapi.Session
	var sent time.Time
	err := call(ctx, l.keep, "heartbeat session "+id.Masked(), true, request{
		method: http.MethodPost, path: "/v1/sessions/heartbeat",
		in: lockapi.HeartbeatRequest{SessionID: string(id), TTLMS: lockapi.Milliseconds(ttl)}, out: &answer, safe: true, sending: now(&sent),
	})
	got, err := session(answer, sent, err)
	got.ID = id
	l.owned(got)
	return got, err
}

// EndSession deletes a session and its locks. After an unknown outcome the same call
// again answers lockstore.ErrNotFound when it was done.
func (l *Locks) EndSession(ctx context.Context, id lockstore.SessionID) (int, error) {
	if err := lockstore.ValidSessionID(id); err != nil {
		return 0, err
	}
	var answer lockapi.EndedSession
	err := call(ctx, l.work, "end session "+id.Masked(), true, request{
		method: http.MethodPost, path: "/v1/sessions/end", in: lockapi.SessionRequest{SessionID: string(id)}, out: &answer,
	})
	return answer.Locks, err
}

// Session returns one session.
func (l *Locks) Session(ctx context.Context, id lockstore.SessionID) (lockstore.Session, error) {
	if err := lockstore.ValidSessionID(id); err != nil {
		return lockstore.Session{}, err
	}
	var answer lockapi.Session
	var sent time.Time
	err := call(ctx, l.work, "show session "+id.Masked(), false, request{
		method: http.MethodPost, path: "/v1/sessions/show", in: lockapi.SessionRequest{SessionID: string(id)}, out: &answer, safe: true, sending: now(&sent),
	})
	got, err := session(answer, sent, err)
	got.ID = id
	l.owned(got)
	return got, err
}

func session(answer lockapi.Session, sent time.Time, err error) (lockstore.Session, error) {
	if err != nil {
		return lockstore.Session{}, err
	}
	return answer.Value(sent)
}

// mostOwners bounds how many sessions' owners are remembered.
const mostOwners = 4096

// owned remembers a session's owner, which never changes.
func (l *Locks) owned(s lockstore.Session) {
	if s.ID == "" || s.Owner == "" {
		return
	}
	if l.known.Add(1) > mostOwners {
		l.known.Store(0)
		l.owners.Clear()
	}
	l.owners.Store(s.ID, s.Owner)
}

// ownedBy refuses an acquire under a session that is known to be another owner's: over
// HTTP the holder is the session's owner, and the caller asked for another. A key that
// is held is said to be, as the store itself says it.
func (l *Locks) ownedBy(ctx context.Context, params lockstore.AcquireParams) error {
	owner, known := l.owners.Load(params.Session)
	if !known {
		return nil
	}
	// With a credential it is <credential>/<owner> (K-2.12).
	if owner == params.Owner || strings.HasSuffix(owner.(string), "/"+params.Owner) { //nolint:forcetypeassert // only owned stores there
		return nil
	}
	entry, err := l.Show(ctx, params.Key)
	switch {
	case err == nil && !entry.Expired:
		return &lockstore.HeldError{Key: entry.Key, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
	case err != nil && !errors.Is(err, lockstore.ErrNotFound):
		return err
	}
	return fmt.Errorf("%w: session %s is %q's, and lock %q was asked for by %q; give the session's owner, or another session",
		lockstore.ErrInvalid, params.Session.Masked(), owner, params.Key, params.Owner)
}

// Acquire tries once. The holder is the session's owner, whoever that is.
// An answer that is lost is *lockstore.UnknownOutcomeError: the same session re-enters
// what it may have been granted, with a new token (K-2.9).
func (l *Locks) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	return l.acquire(ctx, l.work, params, 0)
}

func (l *Locks) acquire(ctx context.Context, c *conn, params lockstore.AcquireParams, wait time.Duration) (lockstore.Grant, error) {
	err := validAcquire(params)
	if err == nil {
		err = l.ownedBy(ctx, params)
	}
	if err != nil {
		return lockstore.Grant{}, err
	}
	var answer lockapi.Grant
	var sent time.Time
	err = call(ctx, c, fmt.Sprintf("acquire lock %q", params.Key), true, request{
		method: http.MethodPost, path: "/v1/locks/acquire", wait: wait, out: &answer, sending: now(&sent),
		in: lockapi.AcquireRequest{Key: params.Key, SessionID: string(params.Session), TTLMS: lockapi.Milliseconds(params.TTL), WaitMS: lockapi.Milliseconds(wait)},
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	return answer.Value(params.Session, sent)
}

func validAcquire(p lockstore.AcquireParams) error {
	return errors.Join(lockstore.ValidKey(p.Key), lockstore.ValidOwner(p.Owner), lockstore.ValidTTL(p.TTL), lockstore.ValidSessionID(p.Session))
}

// Renew extends the grant, never shortens it. It may be repeated.
func (l *Locks) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Grant{}, err
	}
	var answer lockapi.Grant
	var sent time.Time
	err := call(ctx, l.keep, fmt.Sprintf("renew lock %q", key), true, request{
		method: http.MethodPost, path: "/v1/locks/renew", header: presenting(token),
		in: lockapi.RenewRequest{Key: key, TTLMS: lockapi.Milliseconds(ttl)}, out: &answer, safe: true, sending: now(&sent),
	})
	if err != nil {
		return lockstore.Grant{}, err
	}
	return answer.Value("", sent)
}

// Release deletes the grant of this very token, or nothing: it is repeated until it
// is answered, a few times (K-2.7). One whose first answer was lost is Stale.
func (l *Locks) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token)); err != nil {
		return lockstore.Release{}, err
	}
	var answer lockapi.Release
	err := call(ctx, l.work, fmt.Sprintf("release lock %q", key), true, request{
		method: http.MethodPost, path: "/v1/locks/release", header: presenting(token), in: lockapi.ReleaseRequest{Key: key}, out: &answer, safe: true,
	})
	return answer.Value(), err
}

// AcquireBatch tries for many keys in one transaction, and answers each by itself.
func (l *Locks) AcquireBatch(ctx context.Context, params []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	items := make([]lockapi.AcquireItem, len(params))
	for i, p := range params {
		if err := validAcquire(p); err != nil {
			return nil, err
		}
		items[i] = lockapi.AcquireItem{Key: p.Key, SessionID: string(p.Session), TTLMS: lockapi.Milliseconds(p.TTL)}
	}
	var answer lockapi.AcquireBatchResponse
	var sent time.Time
	doing := fmt.Sprintf("acquire %d locks", len(params))
	err := call(ctx, l.work, doing, true, request{
		method: http.MethodPost, path: "/v1/locks/acquire-batch", in: lockapi.AcquireBatchRequest{Locks: items}, out: &answer, sending: now(&sent),
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(params) {
		return nil, &lockstore.UnknownOutcomeError{Doing: doing, Err: fmt.Errorf("lock-server answered about %d", len(answer.Results))}
	}
	results := make([]lockstore.AcquireResult, len(params))
	for i, r := range answer.Results {
		switch {
		case r.Problem != nil:
			results[i].Err = lockapi.Error(r.Problem.Problem())
		case r.Grant != nil:
			results[i].Grant, results[i].Err = r.Grant.Value(params[i].Session, sent)
		default:
			results[i].Err = &lockstore.UnknownOutcomeError{Doing: fmt.Sprintf("acquire lock %q", params[i].Key), Err: errNoCause}
		}
	}
	return results, nil
}

// ReleaseBatch releases many grants in one transaction. It may be repeated (K-2.7).
func (l *Locks) ReleaseBatch(ctx context.Context, refs []lockstore.GrantRef) ([]lockstore.Release, error) {
	grants := make([]lockapi.GrantRef, len(refs))
	for i, r := range refs {
		if err := errors.Join(lockstore.LookupKey(r.Key), lockstore.ValidToken(r.Token)); err != nil {
			return nil, err
		}
		grants[i] = lockapi.GrantRef{Key: r.Key, Token: r.Token, TokenStr: r.Token.String()}
	}
	var answer lockapi.ReleaseBatchResponse
	err := call(ctx, l.work, fmt.Sprintf("release %d locks", len(refs)), true, request{
		method: http.MethodPost, path: "/v1/locks/release-batch", in: lockapi.ReleaseBatchRequest{Grants: grants}, out: &answer, safe: true,
	})
	if err != nil {
		return nil, err
	}
	released := make([]lockstore.Release, len(answer.Results))
	for i, r := range answer.Results {
		released[i] = r.Value()
	}
	return released, nil
}

// now reads the clock when a request leaves (K-2.10).
func now(to *time.Time) func() { return func() { *to = time.Now() } }

// first reads it when a request leaves for the first time: whatever answers the next
// try, it may have been done by then (K-2.10).
func first(to *time.Time) func() {
	return func() {
		if to.IsZero() {
			*to = time.Now()
		}
	}
}

func presenting(token lockstore.Token) http.Header {
	return http.Header{lockapi.TokenHeader: {token.String()}}
}
