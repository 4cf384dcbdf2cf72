package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

// While transactions are under way, what comes meanwhile goes together: few
// transactions for many callers, none of which shares one with another of its key;
// in the end nothing is left, in lockdb or in the engine's memory.
//
// Clauses: K-1.3, K-2.4
// Mutation: take two calls of a key into a batch in takeOf, offer a busy key, or take
// one key at a time in take.
func TestCallsGoTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := newSpy(b.store)
	e := start(t, db)
	const callers, rounds = 32, 12
	group, ctx := errgroup.WithContext(t.Context())
	for c := range callers {
		params := b.params(t, fmt.Sprint("caller-", c), "")
		group.Go(func() error {
			for round := range rounds {
				// Two callers in three have a key of their own; the others meet.
				params.Key = fmt.Sprint("own-", c)
				if c%3 == 0 {
					params.Key = fmt.Sprint("shared-", round%4)
				}
				grant, err := e.Acquire(ctx, params, engine.Wait{})
				if _, held := errors.AsType[*lockstore.HeldError](err); held {
					continue
				}
				if err != nil {
					return err
				}
				if release, err := e.Release(ctx, grant.Key, grant.Token); err != nil || release.Stale {
					return fmt.Errorf("release %s: %+v, %w", grant.Key, release, err)
				}
			}
			return nil
		})
	}
	if err := errors.Join(group.Wait(), db.verdict()); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, n := range db.batches {
		calls += n
	}
	if len(db.batches)*3 > calls || db.most > engine.Connections {
		t.Errorf("%d transactions for %d keys, %d at once", len(db.batches), calls, db.most)
	}
	if entries, err := b.store.List(t.Context(), lockstore.Filter{}); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %+v, %v", entries, err)
	}
	if n := e.Remembered(); n != 0 {
		t.Errorf("%d keys are remembered that nobody asks for", n)
	}
}

// pauseAtCommit holds back the commit of whatever writes a lock entry, until the
// returned function is called.
func pauseAtCommit(t *testing.T, b bundle) (letGo func()) {
	t.Helper()
	b.exec(t, `CREATE TABLE shut ()`)
	b.exec(t, `INSERT INTO shut DEFAULT VALUES`)
	b.exec(t, `GRANT SELECT ON shut TO PUBLIC`)
	b.exec(t, `CREATE FUNCTION hold_back() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		  WHILE EXISTS (SELECT FROM shut) LOOP PERFORM pg_sleep(0.005); END LOOP;
		  RETURN NULL;
		END $$`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER zz_hold_back AFTER INSERT OR DELETE ON lock_entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold_back()`)
	return func() { b.exec(t, `DELETE FROM shut`) }
}

// heldBack returns when a commit is.
func heldBack(t *testing.T, b bundle) {
	t.Helper()
	pgtest.Eventually(t, "a commit is held back", func(ctx context.Context) (bool, error) {
		var n int
		err := b.super.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`).Scan(&n)
		return n > 0, err
	})
}

// Nobody is told of a grant or a release before its COMMIT has answered: what is
// held back there is told to nobody, and seen by nobody else.
//
// Clauses: K-1.4
// Mutation: answer before Exchange has returned, or in Exchange before COMMIT.
func TestAnswersComeAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine := b.acquire(t, b.params(t, "alice", "mine"))
	other := b.params(t, "bob", "other")
	letGo := pauseAtCommit(t, b)
	acquired, released := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.engine.Acquire(t.Context(), other, engine.Wait{}); acquired <- err }()
	go func() { _, err := b.engine.Release(t.Context(), "mine", mine.Token); released <- err }()
	heldBack(t, b)
	seen, err := b.store.Look(t.Context(), []string{"mine", "other"})
	if _, other := seen["other"]; err != nil || other || seen["mine"].Token != mine.Token {
		t.Errorf("seen before the commit: %+v, %v", seen, err)
	}
	select {
	case err := <-acquired:
		t.Errorf("a grant was told before its commit: %v", err)
	case err := <-released:
		t.Errorf("a release was told before its commit: %v", err)
	default:
	}
	letGo()
	for what, answer := range map[string]chan error{"the acquire": acquired, "the release": released} {
		if err := <-answer; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A key that another transaction blocks is taken out of its batch and waited for
// alone, as long as a single try waits; the others are granted while the blocker
// still stands. A waiter of it waits on.
//
// Clauses: K-2.4, K-2.11
// Mutation: leave the blocked key in the lane (call the store in settle itself), or
// answer BLOCKED from the batch.
func TestBlockedKeyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stuck := b.acquire(t, b.params(t, "alice", "stuck"))
	bob := b.params(t, "bob", "blocked")
	tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('blocked', 'bob', $1, 1, now(), now() + interval '1 hour')`, string(bob.Session)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM lock_entry WHERE lock_key = 'stuck' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	blocked, released, waited := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	carol, dave := b.params(t, "carol", "blocked"), b.params(t, "dave", "blocked")
	go func() { _, err := b.engine.Acquire(t.Context(), carol, engine.Wait{}); blocked <- err }()
	go func() { _, err := b.engine.Release(t.Context(), "stuck", stuck.Token); released <- err }()
	go func() { _, err := b.engine.Acquire(t.Context(), dave, engine.Wait{Most: time.Minute}); waited <- err }()
	for i := range 40 {
		b.acquire(t, b.params(t, "erin", fmt.Sprint("free-", i)))
	}
	select {
	case err := <-released:
		// Its two seconds may be over on a busy machine.
		if _, stillBlocked := errors.AsType[*lockstore.BlockedError](err); !stillBlocked {
			t.Errorf("a release was answered while its row was locked: %v", err)
		}
		released <- err
	default:
	}
	refusal, ok := errors.AsType[*lockstore.BlockedError](<-blocked)
	if !ok || refusal.Key != "blocked" || len(refusal.PIDs) != 1 {
		t.Errorf("the blocked try: %+v", refusal)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	// Its two seconds may have been over before: then it was told so.
	if _, stillBlocked := errors.AsType[*lockstore.BlockedError](<-released); !stillBlocked {
		if seen, err := b.store.Look(t.Context(), []string{"stuck"}); err != nil || len(seen) != 0 {
			t.Errorf("the release was told as done: %+v, %v", seen, err)
		}
	}
}

// A batch whose answer is lost is unknown for every acquire in it, carried out or
// not. A release is tried again, which finds out: only where its row is gone, nobody
// knows by whom.
//
// Clauses: K-2.7, K-2.9
// Mutation: answer an unknown batch as failed, or a release found gone as done.
func TestLostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost := &lockstore.UnknownOutcomeError{Doing: "exchange", Err: io.ErrUnexpectedEOF}
	for name, done := range map[string]bool{"carried out": true, "not carried out": false} {
		db := newSpy(b.store)
		e := start(t, db)
		first, err := e.Acquire(t.Context(), b.params(t, "alice", "first "+name), engine.Wait{})
		if err != nil {
			t.Fatal(err)
		}
		fail := func(postgres.Exchange) error { return lost }
		if done {
			db.after = fail
		} else {
			db.before = fail
		}
		_, err = e.Acquire(t.Context(), b.params(t, "alice", "second "+name), engine.Wait{})
		if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); !unknown {
			t.Errorf("%s: an acquire was told %v", name, err)
		}
		release, err := e.Release(t.Context(), first.Key, first.Token)
		_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
		if unknown != done || !done && (err != nil || release.Stale || release.Token != first.Token) {
			t.Errorf("%s: a release was told %+v, %v", name, release, err)
		}
		if seen, err := b.store.Look(t.Context(), []string{first.Key}); err != nil || len(seen) != 0 {
			t.Errorf("%s: the lock stands: %+v, %v", name, seen, err)
		}
	}
}

// A caller that goes away while its try is under way leaves nothing behind: the
// grant is given back. One whose try was not sent has nothing to give back.
//
// Mutation: leave gone out of tellAcquire, or out of leave.
func TestGrantOfAClientThatHasGoneIsGivenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	params := b.params(t, "alice", "k")
	letGo := pauseAtCommit(t, b)
	ctx, hangUp := context.WithCancelCause(t.Context())
	answer := make(chan error, 1)
	go func() { _, err := b.engine.Acquire(ctx, params, engine.Wait{}); answer <- err }()
	heldBack(t, b)
	hungUp := errors.New("the client hung up")
	hangUp(hungUp)
	err := <-answer
	if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); !unknown || !errors.Is(err, hungUp) {
		t.Errorf("the caller that went was told %v", err)
	}
	letGo()
	pgtest.Eventually(t, "the grant comes and is given back", func(ctx context.Context) (bool, error) {
		var ended int
		err := b.super.QueryRow(ctx, `SELECT count(*) FROM lock_grant WHERE lock_key = 'k' AND ended = 'released'`).Scan(&ended)
		return ended == 1 && b.engine.Remembered() == 0, err
	})
}
