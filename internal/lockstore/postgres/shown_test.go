//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// shownEarly is a store that shows a token before its COMMIT, which then never
// comes. Each grant needs a connection of its own, made beforehand.
type shownEarly struct {
	*postgres.Store
	conns chan *pgx.Conn
}

func newShownEarly(t *testing.T, store *postgres.Store, db pgtest.DB, grants int) shownEarly {
	t.Helper()
	s := shownEarly{Store: store, conns: make(chan *pgx.Conn, grants)}
	for range grants {
		conn := db.Conn(t, "t_lockapp")
		if _, err := conn.Prepare(t.Context(), "", postgres.Queries()["acquire"]); err != nil {
			t.Fatal(err)
		}
		s.conns <- conn
	}
	return s
}

func (s shownEarly) Acquire(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	tx, err := (<-s.conns).Begin(ctx)
	if err != nil {
		return lockstore.Grant{}, err
	}
	m := mutant{acquire: postgres.Queries()["acquire"], db: tx}
	return m.Acquire(ctx, p)
}

// A token that is shown before its COMMIT is issued again after a crash; shown
// after it, never.
//
// Clauses: K-1.4
// Mutation: the test shows it before (shownEarly).
func TestTokenShownBeforeCommit(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	const crashes, keys = 4, rounds / 4
	for _, early := range []bool{false, true} {
		shown, repeated := 0, 0
		for range crashes {
			record := crashRound(t, single, db, keys, early)
			shown += keys
			repeated += len(repeats(record.History()))
			verdict := locktest.Check(record.History(), rules())
			if errors.Is(verdict.Err, locktest.ErrTokenRepeated) != early {
				t.Errorf("shown before COMMIT %t: %v", early, verdict.Err)
			}
		}
		if want := map[bool]int{true: rounds}[early]; repeated != want {
			t.Errorf("shown before COMMIT %t: %d of %d tokens are issued again, want %d", early, repeated, shown, want)
		}
	}
}

// crashRound shows a token for each key, crashes the server and acquires as many
// other keys. Nobody but the clients themselves writes anything to the disk
// meanwhile.
func crashRound(t *testing.T, single *pgtest.Single, db pgtest.DB, keys int, early bool) *locktest.Recorder {
	t.Helper()
	record := locktest.NewRecorder()
	opts := crashableOptions(t, db)
	var before lockstore.Store = open(t, opts)
	if early {
		before = newShownEarly(t, before.(*postgres.Store), db, keys)
	}
	actor := crashActor(t, record, before, "before")
	// The first number after a checkpoint is the one that can be lost: the server
	// writes ahead that it may have issued the next 32.
	if _, err := db.Conn(t, "super").Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	single.Freeze(t)
	acquireEach(t, actor, keys)
	single.Crash(t)
	single.Start(t)
	acquireEach(t, crashActor(t, record, open(t, opts), "after"), keys)
	return record
}

func crashActor(t *testing.T, record *locktest.Recorder, store lockstore.Store, owner string) *locktest.Actor {
	t.Helper()
	session, err := store.CreateSession(t.Context(), owner, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return record.Actor(store, owner, session.ID)
}

// acquireEach acquires keys that nobody else ever had.
func acquireEach(t *testing.T, actor *locktest.Actor, keys int) {
	t.Helper()
	for i := range keys {
		key := fmt.Sprintf("%s of %s, %d", actor.Owner, actor.Session, i)
		if grant, _, err := actor.Acquire(t.Context(), key, time.Minute); err != nil || grant.Token == 0 {
			t.Fatalf("acquire %s: %+v, %v", key, grant, err)
		}
	}
}

// repeats are the tokens that two grants have.
func repeats(history locktest.History) []lockstore.Token {
	var tokens, twice []lockstore.Token
	for _, o := range history {
		if slices.Contains(tokens, o.Answer.Token) {
			twice = append(twice, o.Answer.Token)
		}
		tokens = append(tokens, o.Answer.Token)
	}
	return twice
}
