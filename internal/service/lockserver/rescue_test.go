package lockserver_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

// Readiness that finds a sign of a rewind has restore.auto act, within a time of its own:
// whoever asked has no part in it, and cuts nothing off by leaving. Meanwhile the looks go
// on: whoever asks is told how it is, and what a person does is noticed.
//
// Clauses: K-7.10, K-7.6
// Mutation: rescue in check, under the context of whoever looks; in run, between two
// looks; without rescueTimeout.
func TestRescueIsOnItsOwn(t *testing.T) {
	t.Parallel()
	var closed atomic.Bool
	shut := &lockstore.GrantsClosedError{Reason: "lockdb was restored", Hint: "dlockctl restore plan"}
	opts := through(t, between{grants: func(ctx context.Context) error {
		if ctx.Value(hurried{}) == "first" {
			closed.Store(true) // so that nobody finds it before
		}
		if closed.Load() {
			return shut
		}
		return nil
	}})
	begun, free, ended := make(chan context.Context, 1), make(chan struct{}), make(chan error, 1)
	opts.Rescue = func(ctx context.Context) error {
		begun <- ctx
		select {
		case <-free:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return ctx.Err()
	}
	s := serve(t, opts, "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), hurried{}, "first"))
	defer leave()
	_ = ready(ctx, t, s)
	acting := <-begun
	leave()
	if _, bounded := acting.Deadline(); !bounded || acting.Value(hurried{}) != nil {
		t.Errorf("restore.auto acts in the context of whoever asked, or without a bound: %v", acting)
	}
	if grants := ready(t.Context(), t, s); grants.State != httpd.Failed || !strings.Contains(grants.Reason, shut.Reason) {
		t.Errorf("while it acts readiness says %+v", grants)
	}
	closed.Store(false)
	pgtest.Eventually(t, "a lock is granted while it acts", func(ctx context.Context) (bool, error) {
		a := c.doIn(ctx, t, http.MethodPost, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session.SessionID, TTLMS: 60_000})
		return a.status == http.StatusOK, nil
	})
	close(free)
	if err := <-ended; err != nil {
		t.Errorf("it was cut off: %v", err)
	}
}

// ready is what readiness says of the grants, which may wait for nobody.
func ready(ctx context.Context, t *testing.T, s *server) httpd.Condition {
	t.Helper()
	said := make(chan []httpd.Condition, 1)
	go func() { said <- s.service.Ready(ctx) }()
	select {
	case conditions := <-said:
		return conditions[1]
	case <-time.After(patience):
		t.Fatal("readiness waits for something")
		return httpd.Condition{}
	}
}

// Whoever asks for readiness when the server has ended opens no lockdb, which nobody
// would close.
//
// Mutation: leave ended out of check.
func TestReadinessAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, options(pgtest.Migrated(t, 16).Lock.Config(t, "t_lockapp")), "").ready(t)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if lockdb := s.service.Ready(t.Context())[0]; lockdb.State != httpd.Failed || !strings.Contains(lockdb.Reason, "has stopped") {
		t.Errorf("lockdb is said to be %+v", lockdb)
	}
	if s.service.Stat() != nil {
		t.Error("lockdb is open")
	}
}
