package client_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

const (
	sessionID = lockstore.SessionID("5ec4e700-1111-4222-8333-444455556666")
	lockKey   = "account:of-nobody's-business"
	apiKey    = "dlk_hunter2-planted"
)

// server is a service as a test has it, which counts what reaches it.
type server struct {
	*httptest.Server

	mu    sync.Mutex
	paths []string
	from  map[string][]string // the client's addresses, by path
	keys  []string
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{from: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, r.URL.Path)
		s.from[r.URL.Path] = append(s.from[r.URL.Path], r.RemoteAddr)
		s.keys = append(s.keys, r.Header.Get("Authorization"))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paths)
}

func (s *server) locks(t *testing.T) *client.Locks {
	t.Helper()
	l, err := client.NewLocks(client.Options{URL: s.URL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// hangUp takes a request and cuts the connection.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func page(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html>a proxy's page</html>"))
	}
}

func says(p *problem.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = p.Write(w) }
}

func params() lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: lockKey, Owner: "a", Session: sessionID, TTL: 30 * time.Second}
}

// verb is a call that may have been done when its answer is lost, and how often it is
// sent then.
var verbs = map[string]struct { //nolint:gochecknoglobals // a table of tests
	call func(t *testing.T, l *client.Locks) error
	sent int
}{
	"acquire": {func(t *testing.T, l *client.Locks) error { _, err := l.Acquire(t.Context(), params()); return err }, 1},
	"acquire batch": {func(t *testing.T, l *client.Locks) error {
		_, err := l.AcquireBatch(t.Context(), []lockstore.AcquireParams{params()})
		return err
	}, 1},
	"end session": {func(t *testing.T, l *client.Locks) error { _, err := l.EndSession(t.Context(), sessionID); return err }, 1},
	"revoke": {func(t *testing.T, l *client.Locks) error {
		_, err := l.Revoke(t.Context(), lockstore.RevokeParams{Key: lockKey, Token: 7, Operator: "erin", Reason: "a test"})
		return err
	}, 1},
	"prune": {func(t *testing.T, l *client.Locks) error { _, err := l.Prune(t.Context(), time.Hour, 10); return err }, 1},
	"renew": {func(t *testing.T, l *client.Locks) error {
		_, err := l.Renew(t.Context(), lockKey, 7, time.Minute)
		return err
	}, 3},
	"release": {func(t *testing.T, l *client.Locks) error { _, err := l.Release(t.Context(), lockKey, 7); return err }, 3},
	"heartbeat": {func(t *testing.T, l *client.Locks) error {
		_, err := l.Heartbeat(t.Context(), sessionID, time.Minute)
		return err
	}, 3},
	"create session": {func(t *testing.T, l *client.Locks) error {
		_, err := l.CreateSession(t.Context(), "a", time.Minute)
		return err
	}, 3},
}

// A change whose answer is lost is unknown, never failed, whoever lost it: the
// connection, a proxy, or the service itself. Only what does nothing twice is sent
// again.
//
// Clauses: K-2.9, K-2.7
// Mutation: mark acquire as safe, or take a proxy's page for a refusal.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for how, answer := range map[string]http.HandlerFunc{"the connection is cut": hangUp, "502": page(http.StatusBadGateway), "200 and a page": page(http.StatusOK)} {
		for name, v := range verbs {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := serve(t, answer)
				err := v.call(t, s.locks(t))
				unknown, ok := errors.AsType[*lockstore.UnknownOutcomeError](err)
				if !ok || unknown.Doing == "" {
					t.Errorf("%v (%T), want an unknown outcome", err, err)
				}
				if n := s.asked(); n != v.sent {
					t.Errorf("sent %d times, want %d", n, v.sent)
				}
				noSecret(t, err)
			})
		}
	}
}

// What certainly did not arrive is unreachable, and nothing was done; a read that
// failed is, too.
//
// Mutation: set sent before the connection is there.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	gone := "http://" + nobody(t)
	for name, v := range verbs {
		l, err := client.NewLocks(client.Options{URL: gone})
		if err != nil {
			t.Fatal(err)
		}
		err = v.call(t, l)
		if unreachable, ok := errors.AsType[*lockstore.UnreachableError](err); !ok || unreachable.Doing == "" {
			t.Errorf("%s with nobody there: %v (%T)", name, err, err)
		}
		noSecret(t, err)
	}
	s := serve(t, hangUp)
	_, err := s.locks(t).Show(t.Context(), lockKey)
	if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok || s.asked() != 3 {
		t.Errorf("a read that was cut off: %v, sent %d times", err, s.asked())
	}
	noSecret(t, err)
}

// nobody is an address at which nobody listens, nor can while the test runs: it is the
// near end of a connection.
func nobody(t *testing.T) string {
	t.Helper()
	far := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(far.Close)
	near, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", far.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return near.LocalAddr().String()
}

// noSecret wants an error to name neither a key, nor a session, nor a credential.
func noSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	if text := err.Error(); strings.Contains(text, string(sessionID)) || strings.Contains(text, apiKey) {
		t.Errorf("the error shows a secret: %s", text)
	}
}

// A problem is the error that the store itself would have returned, and what no
// service has done is sent once.
//
// Mutation: return the problem itself from call or pay.
func TestProblems(t *testing.T) {
	t.Parallel()
	held := &lockstore.HeldError{Key: "k", Owner: "b", Token: 7, Remaining: 12 * time.Second}
	s := serve(t, says(lockapi.Problem(held)))
	_, err := s.locks(t).Acquire(t.Context(), params())
	if got, ok := errors.AsType[*lockstore.HeldError](err); !ok || got.Owner != "b" || got.Token != 7 || got.Remaining != 12*time.Second || s.asked() != 1 {
		t.Errorf("held: %v, sent %d times", err, s.asked())
	}
	s = serve(t, says(payapi.Problem(&paystore.FencedError{Resource: paystore.ResourceRail, AccountID: "a", Presented: 6, Stored: 7})))
	rail, err := client.NewRail(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rail.Submit(t.Context(), "p", 6)
	if got, ok := errors.AsType[*paystore.FencedError](err); !ok || got.Presented != 6 || got.Stored != 7 || got.Resource != paystore.ResourceRail || s.asked() != 1 {
		t.Errorf("fenced: %v, sent %d times", err, s.asked())
	}
	s = serve(t, says(problem.New(http.StatusForbidden, problem.Forbidden, "the scope is too small")))
	_, err = s.locks(t).Renew(t.Context(), lockKey, 7, time.Minute)
	if p, ok := problem.From(err); !ok || p.Code != problem.Forbidden || s.asked() != 1 {
		t.Errorf("forbidden: %v, sent %d times", err, s.asked())
	}
	s = serve(t, hangUp)
	payments, err := client.NewPayments(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = payments.Post(t.Context(), "p", 6)
	if _, ok := errors.AsType[*paystore.UnknownOutcomeError](err); !ok || s.asked() != 1 {
		t.Errorf("a posting whose answer is lost: %v, sent %d times", err, s.asked())
	}
}

// Whoever is asked for a lock and is no lock-server says nothing about the lock: neither
// another service, nor a proxy's page.
//
// Mutation: answer a path that is not there with not_found, or leave noSuchPath out of call.
func TestAskedTheWrongService(t *testing.T) {
	t.Parallel()
	another := serve(t, says(problem.New(http.StatusNotFound, problem.Usage, "there is no such path; GET /openapi.json lists them")))
	_, err := another.locks(t).Show(t.Context(), lockKey)
	if errors.Is(err, lockstore.ErrNotFound) || !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), "is no lock-server") {
		t.Errorf("another service: %v", err)
	}
	_, err = another.locks(t).Pulse(t.Context(), 7)
	if !errors.Is(err, lockstore.ErrUnsupported) {
		t.Errorf("a lock-server that does not count: %v", err)
	}
	_, err = serve(t, page(http.StatusNotFound)).locks(t).Show(t.Context(), lockKey)
	if _, away := errors.AsType[*lockstore.UnreachableError](err); !away || errors.Is(err, lockstore.ErrNotFound) {
		t.Errorf("a page: %v", err)
	}
	if p, is := problem.From(err); is {
		t.Errorf("a page was taken for a service's word: %v", p)
	}
}

// What is refused for being asked too often was not done, and is asked again, whatever
// it is; a service that drains is asked again only for what is safe.
//
// Mutation: leave the problems out of again.
func TestAsksAgain(t *testing.T) {
	t.Parallel()
	for code, sent := range map[string]int{problem.RateLimited: 3, problem.Draining: 1, problem.Contended: 1} {
		s := serve(t, says(problem.New(http.StatusServiceUnavailable, code, "not now")))
		if _, err := s.locks(t).Acquire(t.Context(), params()); err == nil || s.asked() != sent {
			t.Errorf("%s: %v, sent %d times, want %d", code, err, s.asked(), sent)
		}
	}
	s := serve(t, says(problem.New(http.StatusServiceUnavailable, problem.Draining, "going away")))
	_, err := s.locks(t).Show(t.Context(), lockKey)
	if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok || s.asked() != 3 {
		t.Errorf("a read of one that drains: %v, sent %d times", err, s.asked())
	}
}

// Sent is read before the try that was answered leaves, and after those that failed.
//
// Clauses: K-2.10
// Mutation: read it when the answer is there, or once before the first try.
func TestSent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var arrived []time.Time
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrived = append(arrived, time.Now())
		n := len(arrived)
		mu.Unlock()
		if n == 1 {
			hangUp(w, r)
		}
		_ = json.NewEncoder(w).Encode(lockapi.Grant{Key: lockKey, Token: lockapi.NewToken(7), TTLMS: 60_000})
	})
	before := time.Now()
	grant, err := s.locks(t).Renew(t.Context(), lockKey, 7, time.Minute)
	if err != nil || len(arrived) != 2 {
		t.Fatalf("%v after %d tries", err, len(arrived))
	}
	if grant.Sent.Before(before) || grant.Sent.Before(arrived[0]) || grant.Sent.After(arrived[1]) || grant.TTL != time.Minute {
		t.Errorf("sent at %s for %s, between %s and %s", grant.Sent, grant.TTL, arrived[0], arrived[1])
	}
}

// Renewals and heartbeats share no connection with anything else.
//
// Mutation: give NewLocks one conn for both.
func TestOwnConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	l := s.locks(t)
	for range 5 {
		for _, name := range []string{"acquire", "renew", "release", "heartbeat"} {
			if err := verbs[name].call(t, l); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	keeping := slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.from["/v1/locks/renew"], s.from["/v1/sessions/heartbeat"]))))
	working := slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.from["/v1/locks/acquire"], s.from["/v1/locks/release"]))))
	// Now and then, when the machine is busy, the transport itself gives one up.
	const most = 3
	shared := slices.ContainsFunc(keeping, func(from string) bool { return slices.Contains(working, from) })
	if shared || len(keeping) > most || len(working) > most {
		t.Errorf("20 requests came over %v and %v, want connections of their own that are used again", keeping, working)
	}
}

// A service that does not answer, or takes no connection, is given up in time.
//
// Mutation: leave the timeout out of try.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it only has to be there
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	l, err := client.NewLocks(client.Options{URL: "http://" + hole.Addr().String(), Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = l.Acquire(t.Context(), params())
	if _, ok := errors.AsType[*lockstore.UnknownOutcomeError](err); !ok || time.Since(began) > time.Minute {
		t.Errorf("%v after %s, want an unknown outcome", err, time.Since(began))
	}
	noSecret(t, err)
}

// After some connections that failed most callers are refused at once, until one that
// is let through finds somebody.
//
// Mutation: leave enter out of try, or never let one through.
func TestCircuit(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	gone, back := nobody(t), atomic.Bool{}
	l, err := client.NewLocks(client.Options{URL: s.URL, Wrap: func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !back.Load() {
				r = r.Clone(r.Context())
				r.URL.Host = gone
			}
			return base.RoundTrip(r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 200 {
		_, err := l.Show(t.Context(), lockKey)
		if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok {
			t.Fatalf("nobody there: %v", err)
		}
		if strings.Contains(err.Error(), "waiting before the next") {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of 200 were refused at once", refused)
	}
	back.Store(true)
	until(t, "the circuit closes", func() bool {
		_, err := l.Show(t.Context(), lockKey)
		return err == nil
	})
}

// until asks again and again, and fails when the answer is never yes.
func until(t *testing.T, what string, ask func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-limit.C:
			t.Fatalf("%s: it never did", what)
		case <-tick.C:
		}
	}
}
