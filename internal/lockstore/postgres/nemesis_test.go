package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// crashable is a lockdb on a server that waits for the disk, and may be crashed.
func crashable(t *testing.T) (*pgtest.Single, pgtest.DB) {
	t.Helper()
	single := pgtest.Crashable(t, 16)
	db := single.EmptyDB(t)
	catalogue, err := flyway.Load(flyway.Location{FS: migrations.FS, Dir: "lockdb"})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		t.Fatal(err)
	}
	_, err = migrator.Up(t.Context())
	if err := errors.Join(err, migrator.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return single, db
}

func crashableOptions(t *testing.T, db pgtest.DB) postgres.Options {
	t.Helper()
	// There is no paydb here.
	return postgres.Options{Config: db.Config(t, "t_lockapp"), Purpose: postgres.Granting, AllowSameInstance: true, LockTimeout: 30 * time.Second}
}

// The server is crashed under 16 clients, again and again: what they are told is
// still explained, a token is never issued twice and none falls.
//
// Clauses: K-1.3, K-1.4, K-2.9
// Mutation: synchronous_commit = off in lock_entry_order and the store; or
// TestTokenShownBeforeCommit.
func TestHistoryThroughCrashes(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const wanted = 3
	var crashes atomic.Int64
	soaked := over(soak(t))
	least := locktest.Stats{Clients: 16, Keys: 8, Ops: 3_000, Takeovers: 30, Unknown: 30}
	workload := locktest.Workload{
		Clients: clients(t, least.Clients, single.Server, crashableOptions(t, db)), Keys: least.Keys, Seed: seed, Least: least,
		Until: func() bool { return crashes.Load() >= wanted && soaked() }, Limit: 2*time.Minute + soak(t),
	}
	var history locktest.History
	var group errgroup.Group
	group.Go(func() (err error) {
		defer cancel()
		history, err = workload.Run(ctx)
		return err
	})
	for wait(ctx, time.Second) {
		if workload.Until() {
			continue // what is still wanted comes sooner without crashes
		}
		single.Crash(t)
		single.Start(t)
		crashes.Add(1)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d crashes", crashes.Load())
	if crashes.Load() < wanted {
		t.Errorf("%d crashes, want at least %d", crashes.Load(), wanted)
	}
	locktest.Require(t, history, rules(), least)
}

// rules are those of this backend, whose own capabilities the conformance suite
// compares with what is declared here.
func rules() locktest.Rules { return locktest.RulesOf(capabilities()) }

// wait tells whether so much time has passed and ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

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
		for shown < crashes*keys {
			record, lost := crashRound(t, single, db, keys, early)
			if early && !lost {
				continue // the server wrote ahead for reasons of its own: not the crash that is meant
			}
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
// other keys. lost tells that nothing of the draws had reached the disk.
func crashRound(t *testing.T, single *pgtest.Single, db pgtest.DB, keys int, early bool) (record *locktest.Recorder, lost bool) {
	t.Helper()
	record = locktest.NewRecorder()
	opts := crashableOptions(t, db)
	var before lockstore.Store = open(t, opts)
	if early {
		before = newShownEarly(t, before.(*postgres.Store), db, keys)
	}
	actor := crashActor(t, record, before, "before")
	super := db.Conn(t, "super")
	// The first number after a checkpoint is the one that can be lost: the server
	// writes ahead that it may have issued the next 32.
	if _, err := super.Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	var start string
	if err := super.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&start); err != nil {
		t.Fatal(err)
	}
	acquireEach(t, actor, keys)
	if err := super.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn() <= $1::text::pg_lsn`, start).Scan(&lost); err != nil {
		t.Fatal(err)
	}
	single.Crash(t)
	single.Start(t)
	after := crashActor(t, record, open(t, opts), "after")
	acquireEach(t, after, keys)
	return record, lost
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
