package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// waitLapsed waits until lockdb's own clock says that the session is over.
func waitLapsed(t *testing.T, b bundle, id lockstore.SessionID) {
	t.Helper()
	pgtest.Eventually(t, "the session lapses", func(ctx context.Context) (bool, error) {
		session, err := b.store.Session(ctx, id)
		return session.Remaining <= 0, err
	})
}

// A session's death releases its locks: ended by its holder, or lapsed and
// reaped; a live one is left alone.
//
// Clauses: K-2.4
// Mutation: drop "expires_at <= now()" from lapsed_sessions.sql, or delete nothing.
func TestSessionDeathReleasesItsLocks(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		live, ended := b.session(t, "alice"), b.session(t, "bob")
		b.acquire(t, "live", "alice", live, time.Hour)
		b.acquire(t, "ended", "bob", ended, time.Hour)
		lapsed := b.session(t, "carol")
		b.acquire(t, "lapsed", "carol", lapsed, time.Hour)
		if locks, err := b.store.EndSession(t.Context(), ended); err != nil || locks != 1 {
			t.Errorf("end: %d locks, %v", locks, err)
		}
		if _, err := b.store.EndSession(t.Context(), ended); !errors.Is(err, lockstore.ErrNotFound) || isUnknown(err) {
			t.Errorf("end again: %v, want ErrNotFound", err)
		}
		b.endSession(t, lapsed)
		if reaped, err := b.store.ReapSessions(t.Context(), 100); err != nil || reaped != (lockstore.Reaped{Sessions: 1, Locks: 1}) {
			t.Errorf("reap: %+v, %v", reaped, err)
		}
		if reaped, err := b.store.ReapSessions(t.Context(), 100); err != nil || reaped != (lockstore.Reaped{}) {
			t.Errorf("reap again: %+v, %v", reaped, err)
		}
		entries, err := b.store.List(t.Context(), lockstore.Filter{})
		if err != nil || len(entries) != 1 || entries[0].Key != "live" {
			t.Errorf("left over: %+v, %v, want the live lock alone", entries, err)
		}
	})
}

// Acquires, reapers and ends over the same sessions and keys deadlock never to
// the caller's knowledge, and no lapsed session is left.
//
// Clauses: K-2.4
// Mutation: delete sessions without locking their entries in key order first, and without the retry.
func TestReapersAndHoldersTogether(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	keys := []string{"a", "b", "c", "d", "e"}
	group, ctx := errgroup.WithContext(t.Context())
	for range 6 {
		group.Go(func() error {
			for range 40 {
				session, err := b.store.CreateSession(ctx, "worker", lockstore.MinTTL)
				if err != nil {
					return err
				}
				for _, key := range keys {
					_, err := b.store.Acquire(ctx, lockstore.AcquireParams{Key: key, Owner: "worker", Session: session.ID, TTL: lockstore.MinTTL})
					if held := (*lockstore.HeldError)(nil); err != nil && !errors.As(err, &held) && !errors.Is(err, lockstore.ErrSessionLost) {
						return err
					}
				}
			}
			return nil
		})
	}
	for range 2 {
		group.Go(func() error {
			for range 60 {
				if _, err := b.store.ReapSessions(ctx, 10); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "every session is reaped", func(ctx context.Context) (bool, error) {
		if _, err := b.store.ReapSessions(ctx, 100); err != nil {
			return false, err
		}
		sessions, err := b.store.Sessions(ctx, lockstore.SessionFilter{})
		return len(sessions) == 0, err
	})
}

// A replayed row whose session did not come along is held, and is shown and
// revoked like any other.
//
// Clauses: K-1.1
// Mutation: join lock_session without LEFT in list_entries.sql.
func TestEntryWithoutItsSession(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.exec(t, `SET session_replication_role = replica`)
	b.exec(t, `INSERT INTO lock_entry VALUES ('orphan', 'alice', '00000000-0000-4000-8000-000000000000', 1, now(), now() + interval '1 hour')`)
	b.exec(t, `RESET session_replication_role`)
	entry, err := b.store.Show(t.Context(), "orphan")
	if err != nil || entry.Owner != "alice" || !entry.SessionExpiresAt.IsZero() {
		t.Fatalf("show: %+v, %v", entry, err)
	}
	if outcome, err := b.revoke(t.Context(), "orphan", entry.Token); err != nil || outcome.Outcome != lockstore.Revoked {
		t.Errorf("revoke: %+v, %v", outcome, err)
	}
}

// Filters narrow, limits bound, and an id that is not one is refused without
// being shown.
//
// Clauses: K-2.12
// Mutation: print the session id itself in sessionUUID's error.
func TestListsAndSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice, bob := b.session(t, "alice"), b.session(t, "bob")
	b.acquire(t, "app/1", "alice", alice, time.Hour)
	b.acquire(t, "app/2", "bob", bob, time.Hour)
	b.acquire(t, "job%_", "bob", bob, time.Hour)
	for name, tt := range map[string]struct {
		filter lockstore.Filter
		want   int
	}{
		"all": {lockstore.Filter{}, 3}, "owner": {lockstore.Filter{Owner: "bob"}, 2}, "prefix": {lockstore.Filter{Prefix: "app/"}, 2},
		"a prefix is no pattern": {lockstore.Filter{Prefix: "%"}, 0}, "session": {lockstore.Filter{Session: alice}, 1},
		"expired": {lockstore.Filter{Expired: true}, 0}, "limit": {lockstore.Filter{Limit: 1}, 1},
	} {
		if entries, err := b.store.List(t.Context(), tt.filter); err != nil || len(entries) != tt.want {
			t.Errorf("%s: %d entries, %v, want %d", name, len(entries), err, tt.want)
		}
	}
	for _, text := range []string{"\xff", "a\x00b"} {
		_, owner := b.store.List(t.Context(), lockstore.Filter{Owner: text})
		_, prefix := b.store.List(t.Context(), lockstore.Filter{Prefix: text})
		_, sessions := b.store.Sessions(t.Context(), lockstore.SessionFilter{Owner: text})
		_, rows := b.store.Revocations(t.Context(), lockstore.RevocationFilter{Key: text})
		_, log := b.store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: text})
		_, many := b.store.RevokeMany(t.Context(), lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: text}, Operator: "erin", Reason: "why"})
		for i, err := range []error{owner, prefix, sessions, rows, log, many} {
			if !errors.Is(err, lockstore.ErrInvalid) {
				t.Errorf("filter %d with %q: %v, want ErrInvalid", i, text, err)
			}
		}
	}
	const secret = "c4ca4238-a0b9-2382-0dcc-509a6f75849b-and-more"
	_, err := b.store.Session(t.Context(), secret)
	if !errors.Is(err, lockstore.ErrInvalid) || len(err.Error()) > 60 {
		t.Errorf("a malformed id: %v", err)
	}
}
