//go:build unix

package rewind_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A lockdb that is stopped at once, with grants in flight, is no restore: its gate
// stays open, and no token that was shown comes again. One that is shown before its
// commit does.
//
// Clauses: K-1.3, K-1.4, K-7.6
// Mutation: show the token before its commit has answered (the test does).
func TestImmediateStopWithTokensInFlight(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		w := newWorld(t, major)
		lockdb := newServer(t, "lockdb", major, map[string]string{"fsync": "on"})
		for range 3 {
			if again := w.inFlight(t, lockdb, 40); again != 0 {
				t.Errorf("%d tokens came again", again)
			}
		}

		early := w.shownEarly(t, lockdb)
		if w.note(early) {
			t.Fatalf("token %s was shown before", early)
		}
		lockdb.start(t)
		s := w.serve(t, lockdb.dsn)
		if first := s.holds(t, "newcomer", others); !first.again {
			t.Errorf("token %s was shown before its commit, and after the crash the first one is %s; want it once more", early, first.token)
		}
	})
}

// inFlight lets clients in until they were shown a number of tokens, then ends the
// server under them, and starts it again. It tells how many of the tokens had been
// shown before.
func (w *world) inFlight(t *testing.T, lockdb *server, tokens int64) (again int64) {
	t.Helper()
	s := w.serve(t, lockdb.dsn)
	defer s.close()
	var shown, repeated atomic.Int64
	enough, stopped := make(chan struct{}), make(chan struct{})
	var clients errgroup.Group
	for range 6 {
		clients.Go(func() error {
			for {
				h, err := s.acquire(t.Context(), "client", uuid.NewString())
				switch {
				case err != nil && isOver(stopped):
					return nil // whatever a server says that ends
				case err != nil && !lost(err):
					return fmt.Errorf("a client: %w", err)
				case err != nil:
					continue
				case h.again:
					repeated.Add(1)
				}
				if shown.Add(1) == tokens {
					close(enough)
				}
			}
		})
	}
	failed := make(chan error, 1)
	go func() { failed <- clients.Wait() }()
	select {
	case <-enough:
	case err := <-failed:
		t.Fatal(err)
	}
	lockdb.stop(t, cluster.Immediate) // the clients go on
	close(stopped)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	lockdb.start(t)
	return repeated.Load()
}

func isOver(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func lost(err error) bool {
	_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
	_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
	return unreachable || unknown
}

// shownEarly is a client that tells its token before the commit, and is cut off when the
// server ends at once.
func (w *world) shownEarly(t *testing.T, lockdb *server) (token lockstore.Token) {
	t.Helper()
	session := uuid.NewString()
	super := place(lockdb.dsn).conn(t)
	execute(t, super, fmt.Sprintf(`INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES ('%s', 'early', now() + interval '1 hour')`, session))
	execute(t, super, `CHECKPOINT`) // or the numbers logged ahead would make up for it
	// The WAL writer would have written the number soon, with no commit.
	frozen := pgtest.Freeze(t, super)
	execute(t, super, `BEGIN`)
	if err := super.QueryRow(t.Context(), verbatim(t), "account:"+others, "early", session, 60.0).Scan(&token, nil, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	frozen.Kill(t)
	lockdb.stop(t, cluster.Immediate)
	return token
}
