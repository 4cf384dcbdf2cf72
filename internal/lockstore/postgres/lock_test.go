package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// Free, held by another, re-entered, lapsed and taken over, released: one key's
// life, with a token that only rises.
//
// Clauses: K-1.3, K-2.2
// Mutation: leave fencing_token out of acquire's DO UPDATE and disable lock_entry_guard.
func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		first := b.acquire(t, "k", "alice", alice, time.Minute)
		if first.Owner != "alice" || first.Session != alice || first.Token < 1 {
			t.Fatalf("granted %+v", first)
		}

		_, err := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "bob", Session: bob, TTL: time.Minute})
		held, ok := errors.AsType[*lockstore.HeldError](err)
		if !ok || held.Owner != "alice" || held.Token != first.Token || held.Remaining <= 0 || held.Remaining > time.Minute {
			t.Fatalf("a second holder got %v (%+v), want held by alice", err, held)
		}

		again := b.acquire(t, "k", "alice", alice, 150*time.Millisecond)
		if again.Token <= first.Token {
			t.Errorf("re-entry got token %s, want above %s", again.Token, first.Token)
		}
		if _, err := b.store.Renew(t.Context(), "k", first.Token, time.Minute); !errors.Is(err, lockstore.ErrLockLost) {
			t.Errorf("renewing the token before re-entry: %v, want ErrLockLost", err)
		}

		b.exec(t, `DELETE FROM lock_entry`)
		short := b.acquire(t, "k", "alice", alice, lockstore.MinTTL)
		b.lapse(t, "k")
		if _, err := b.store.Renew(t.Context(), "k", short.Token, time.Minute); !errors.Is(err, lockstore.ErrLockLost) {
			t.Errorf("renewing a lapsed lease: %v, want ErrLockLost", err)
		}
		taken := b.acquire(t, "k", "bob", bob, time.Minute)
		if taken.Token <= short.Token {
			t.Errorf("takeover got token %s, want above %s", taken.Token, short.Token)
		}
		released, err := b.store.Release(t.Context(), "k", taken.Token)
		if err != nil || released.Stale {
			t.Errorf("release: %+v, %v", released, err)
		}
		recreated := b.acquire(t, "k", "alice", alice, time.Minute)
		if recreated.Token <= taken.Token {
			t.Errorf("after release and re-create token %s, want above %s", recreated.Token, taken.Token)
		}
	})
}

// A client that was overtaken can release nothing but its own token's row, as
// often as it likes.
//
// Clauses: K-2.6, K-2.7
// Mutation: drop "AND fencing_token = :token" from release.sql.
func TestReleaseOfALostGrantIsStale(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice, bob := b.session(t, "alice"), b.session(t, "bob")
	lost := b.acquire(t, "k", "alice", alice, lockstore.MinTTL)
	b.lapse(t, "k")
	current := b.acquire(t, "k", "bob", bob, time.Minute)
	for range 3 {
		released, err := b.store.Release(t.Context(), "k", lost.Token)
		if err != nil || !released.Stale {
			t.Fatalf("release of a lost grant: %+v, %v, want stale", released, err)
		}
	}
	entry, err := b.store.Show(t.Context(), "k")
	if err != nil || entry.Token != current.Token || entry.Owner != "bob" {
		t.Errorf("the key is %+v, %v, want bob's grant untouched", entry, err)
	}
	if renewed, err := b.store.Renew(t.Context(), "k", current.Token, time.Hour); err != nil || renewed.ExpiresAt.Before(current.ExpiresAt.Time) {
		t.Errorf("the holder's renew: %+v, %v", renewed, err)
	}
}

// No grant and no heartbeat under a session that has lapsed or never was.
//
// Clauses: K-2.3
// Mutation: take step (2) out of lock_entry_order.
func TestNoGrantUnderADeadSession(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	lapsed, err := b.store.CreateSession(t.Context(), "alice", lockstore.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	waitLapsed(t, b, lapsed.ID)
	for _, session := range []lockstore.SessionID{lapsed.ID, "00000000-0000-4000-8000-000000000000"} {
		_, err := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Minute})
		if !errors.Is(err, lockstore.ErrSessionLost) {
			t.Errorf("acquire under session %s: %v, want ErrSessionLost", session, err)
		}
		if _, err := b.store.Heartbeat(t.Context(), session, time.Minute); !errors.Is(err, lockstore.ErrSessionLost) {
			t.Errorf("heartbeat of session %s: %v, want ErrSessionLost", session, err)
		}
	}
	// The negative control: it is the trigger that refuses the lapsed one.
	b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`)
	b.acquire(t, "k", "alice", lapsed.ID, time.Minute)
}

// What was promised is never cut by a shorter renewal, heartbeat or re-entry,
// and the answer says what stands.
//
// Clauses: K-2.10
// Mutation: disable lock_entry_guard or lock_session_guard.
func TestPromisesAreNeverCut(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	session := b.session(t, "alice")
	long := b.acquire(t, "k", "alice", session, time.Hour)
	renewed, err := b.store.Renew(t.Context(), "k", long.Token, time.Second)
	if err != nil || !renewed.ExpiresAt.Equal(long.ExpiresAt.Time) {
		t.Errorf("a shorter renewal: %v, %v, want %v", renewed.ExpiresAt, err, long.ExpiresAt)
	}
	again := b.acquire(t, "k", "alice", session, time.Second)
	if !again.ExpiresAt.Equal(long.ExpiresAt.Time) {
		t.Errorf("a shorter re-entry: %v, want %v", again.ExpiresAt, long.ExpiresAt)
	}
	before, err := b.store.Session(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	beat, err := b.store.Heartbeat(t.Context(), session, time.Second)
	if err != nil || !beat.ExpiresAt.Equal(before.ExpiresAt.Time) {
		t.Errorf("a shorter heartbeat: %v, %v, want %v", beat.ExpiresAt, err, before.ExpiresAt)
	}
	// The negative control: without the guards each of them cuts the promise.
	b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard`)
	b.exec(t, `ALTER TABLE lock_session DISABLE TRIGGER lock_session_guard`)
	if cut, err := b.store.Renew(t.Context(), "k", again.Token, time.Second); err != nil || !cut.ExpiresAt.Before(long.ExpiresAt.Time) {
		t.Errorf("without the guard a shorter renewal gave %v, %v", cut.ExpiresAt, err)
	}
	if cut, err := b.store.Heartbeat(t.Context(), session, time.Second); err != nil || !cut.ExpiresAt.Before(before.ExpiresAt.Time) {
		t.Errorf("without the guard a shorter heartbeat gave %v, %v", cut.ExpiresAt, err)
	}
}

// The client's trust ends before lockdb's lease does, whatever the way took.
//
// Clauses: K-2.10
// Mutation: read Sent after the answer.
func TestTrustEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	grant := b.acquire(t, "k", "alice", b.session(t, "alice"), time.Minute)
	entry, err := b.store.Show(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	// Both clocks read at one moment, on one machine: what the client still
	// trusts is at most what lockdb still grants.
	if trusted := time.Until(grant.TrustedUntil()); trusted > entry.Remaining {
		t.Errorf("the client trusts %s more, lockdb grants %s", trusted, entry.Remaining)
	}
}

// A try never hangs behind an open transaction: it answers BLOCKED, names the
// server process, and show names it too.
//
// Clauses: K-2.11
// Mutation: leave lock_timeout out of the transaction's settings.
func TestBlockedByAnOpenTransaction(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		opts := options(t, b.dbs)
		opts.LockTimeout = time.Minute // as PostgreSQL reads it, too
		open(t, opts)
		opts.LockTimeout = 50 * time.Millisecond
		store, pooled := open(t, opts), open(t, postgres.Pooled(opts))
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		grant := b.acquire(t, "held", "alice", alice, time.Hour)

		other := b.dbs.Lock.Conn(t, "t_lockapp")
		tx, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
		pid := int32(other.PgConn().PID())
		if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('new', 'alice', $1, 1, now(), now() + interval '1 hour')`, string(alice)); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `UPDATE lock_entry SET expires_at = now() + interval '2 hours' WHERE lock_key = 'held'`); err != nil {
			t.Fatal(err)
		}

		for name, try := range map[string]func() error{
			"new": func() error {
				_, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "new", Owner: "bob", Session: bob, TTL: time.Minute})
				return err
			},
			"held":   func() error { _, err := store.Renew(t.Context(), "held", grant.Token, time.Minute); return err },
			"pooled": func() error { _, err := pooled.Renew(t.Context(), "held", grant.Token, time.Minute); return err },
		} {
			blocked, ok := errors.AsType[*lockstore.BlockedError](try())
			if !ok || len(blocked.PIDs) != 1 || blocked.PIDs[0] != pid {
				t.Errorf("%s: %+v, want blocked by process %d", name, blocked, pid)
			}
		}
		entry, err := store.Show(t.Context(), "held")
		if err != nil || len(entry.BlockedBy) != 1 || entry.BlockedBy[0] != pid {
			t.Errorf("show: blocked by %v, %v, want %d", entry.BlockedBy, err, pid)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Renew(t.Context(), "held", grant.Token, time.Minute); err != nil {
			t.Errorf("after the other transaction ended: %v", err)
		}
	})
}

// A role whose default is repeatable read is answered CONTENDED, not 40001.
//
// Clauses: K-2.11
// Mutation: begin without ISOLATION LEVEL READ COMMITTED.
func TestReadCommittedWhateverTheDefault(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		opts := options(t, b.dbs)
		opts.Config.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		strict := open(t, as(opts))
		alice := b.session(t, "alice")
		grant, err := strict.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: alice, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := strict.Release(t.Context(), "k", grant.Token); err != nil {
			t.Error(err)
		}
	})
}

// Bad arguments are refused before anything is sent: no token is burnt.
//
// Clauses: K-2.5, K-1.6
// Mutation: drop a Valid call from Acquire, Renew, Release or Revoke.
func TestBadArgumentsAreNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	session := b.session(t, "alice")
	good := lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Minute}
	with := func(change func(*lockstore.AcquireParams)) lockstore.AcquireParams { p := good; change(&p); return p }
	for name, params := range map[string]lockstore.AcquireParams{
		"empty key":     with(func(p *lockstore.AcquireParams) { p.Key = "" }),
		"NUL":           with(func(p *lockstore.AcquireParams) { p.Key = "a\x00b" }),
		"not UTF-8":     with(func(p *lockstore.AcquireParams) { p.Key = "\xff" }),
		"blank owner":   with(func(p *lockstore.AcquireParams) { p.Owner = "  " }),
		"no session":    with(func(p *lockstore.AcquireParams) { p.Session = "" }),
		"not a UUID":    with(func(p *lockstore.AcquireParams) { p.Session = "nonsense" }),
		"zero ttl":      with(func(p *lockstore.AcquireParams) { p.TTL = 0 }),
		"negative ttl":  with(func(p *lockstore.AcquireParams) { p.TTL = -time.Second }),
		"sub-minimum":   with(func(p *lockstore.AcquireParams) { p.TTL = lockstore.MinTTL - 1 }),
		"above maximum": with(func(p *lockstore.AcquireParams) { p.TTL = lockstore.MaxTTL + 1 }),
	} {
		if _, err := b.store.Acquire(t.Context(), params); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for _, token := range []lockstore.Token{0, -1, lockstore.MaxToken + 1} {
		_, renew := b.store.Renew(t.Context(), "k", token, time.Minute)
		_, release := b.store.Release(t.Context(), "k", token)
		_, revoke := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: token, Operator: "erin", Reason: "why"})
		for _, err := range []error{renew, release, revoke} {
			if !errors.Is(err, lockstore.ErrInvalid) {
				t.Errorf("token %d: %v, want ErrInvalid", token, err)
			}
		}
	}
	var called bool
	if err := b.super.QueryRow(t.Context(), `SELECT is_called FROM fencing_token_seq`).Scan(&called); err != nil || called {
		t.Errorf("a token was drawn (%v), or the sequence could not be read: %v", called, err)
	}
}

// A row that someone wrote by hand, without an end, still lists.
//
// Clauses: K-2.5
// Mutation: scan expires_at into a time.Time.
func TestEndlessRowsList(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		session := b.session(t, "alice")
		b.exec(t, `INSERT INTO lock_entry VALUES ('endless', 'alice', $1, 1, now(), 'infinity')`, string(session))
		b.exec(t, `INSERT INTO lock_entry VALUES ('far', 'alice', $1, 1, now(), '200000-01-01')`, string(session))
		b.exec(t, `UPDATE lock_session SET expires_at = 'infinity'`)
		b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard`)
		b.exec(t, `UPDATE lock_entry SET acquired_at = '-infinity' WHERE lock_key = 'far'`)
		entries, err := b.store.List(t.Context(), lockstore.Filter{})
		if err != nil || len(entries) != 2 {
			t.Fatalf("listed %d entries, %v", len(entries), err)
		}
		if !entries[0].ExpiresAt.Infinite || entries[0].ExpiresAt.String() != "infinity" || entries[0].Remaining <= 0 || entries[0].Expired {
			t.Errorf("the endless row is %+v", entries[0])
		}
		if entries[1].Remaining <= 0 {
			t.Errorf("the far row has %s left", entries[1].Remaining)
		}
		if sessions, err := b.store.Sessions(t.Context(), lockstore.SessionFilter{}); err != nil || !sessions[0].ExpiresAt.Infinite || sessions[0].Locks != 2 {
			t.Errorf("sessions: %+v, %v", sessions, err)
		}
	})
}

// Keys are compared byte by byte whatever encoding a role or a database asks
// for: the same key is one key.
//
// Clauses: K-1.3
// Mutation: leave client_encoding out of prepare.
func TestKeysAreBytesWhateverTheEncoding(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		const key = "clé/ü"
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		b.exec(t, `ALTER DATABASE `+pgx.Identifier{b.dbs.Lock.Name}.Sanitize()+` SET client_encoding = 'LATIN1'`)
		latin := open(t, as(options(t, b.dbs)))
		grant, err := latin.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "alice", Session: alice, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "bob", Session: bob, TTL: time.Hour})
		if held, ok := errors.AsType[*lockstore.HeldError](err); !ok || held.Token != grant.Token {
			t.Errorf("the same key by another connection: %v, want held", err)
		}
	})
}

// A role's statement_timeout that ends the wait for a blocked key says BLOCKED
// all the same.
//
// Clauses: K-2.11
// Mutation: drop the QueryCanceled case of classify.
func TestBlockedUnderAStatementTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	opts := options(t, b.dbs)
	opts.Config.RuntimeParams["statement_timeout"] = "3s" // of what opens the store, too
	impatient := open(t, opts)
	session := b.session(t, "alice")
	tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
	if _, err := tx.Exec(t.Context(), `INSERT INTO lock_entry VALUES ('k', 'alice', $1, 1, now(), now() + interval '1 hour')`, string(session)); err != nil {
		t.Fatal(err)
	}
	_, err = impatient.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "bob", Session: b.session(t, "bob"), TTL: time.Minute})
	if blocked, ok := errors.AsType[*lockstore.BlockedError](err); !ok || len(blocked.PIDs) != 1 {
		t.Errorf("acquire: %v, want blocked", err)
	}
}

// A sequence that has run past every token that is accepted is said so.
//
// Clauses: K-1.6
// Mutation: drop lock_entry_token_max_ck from V4, or its case of classify.
func TestExhaustedSequence(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	session := b.session(t, "alice")
	for _, at := range []int64{1 << 53, 1<<63 - 1} {
		b.exec(t, `SELECT setval('fencing_token_seq', $1)`, at)
		_, err := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Minute})
		if unsafe, ok := errors.AsType[*lockstore.UnsafeError](err); !ok || unsafe.Clause != "K-1.6" {
			t.Errorf("at %d: %v, want K-1.6", at, err)
		}
	}
}

// A store without rights says which it lacks, and that nothing happened.
func TestMissingRightIsNotUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	opts := options(t, b.dbs)
	opts.Config = b.dbs.Lock.Config(t, "t_auditor")
	opts.Purpose = postgres.Reading
	auditor := open(t, opts)
	_, err := auditor.Release(t.Context(), "k", 1)
	if unknown := (*lockstore.UnknownOutcomeError)(nil); err == nil || errors.As(err, &unknown) {
		t.Errorf("release as the auditor: %v, want a refusal", err)
	}
	if _, err := auditor.List(t.Context(), lockstore.Filter{}); err != nil {
		t.Errorf("list as the auditor: %v", err)
	}
}
