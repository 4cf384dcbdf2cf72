package etcd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// Keys that look like parts of the store's own names are keys like any other: each is
// held by itself, is listed as it was written, and a prefix is one of keys.
//
// Clauses: K-10.1
// Mutation: leave the percent sign out of escape.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	alice := newClient(t, options(t), "alice", time.Hour)
	keys := []string{
		"a", "a/", "a/b", "a//b", "a%2Fb", "a%2fb", "a%", "a%25", "%", "/", "//", "..", "lock/a", "a b", "ä", "ab", "é", "e\u0301",
		"lock", "meta/floor", "~", strings.Repeat("/", lockstore.MaxKeyBytes), strings.Repeat("a", lockstore.MaxKeyBytes),
	}
	tokens := make(map[string]lockstore.Token)
	for _, key := range keys {
		tokens[key] = alice.lock(t, key)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a", "a/", "a%", "a%2", "/", "%", "lock", "é", "meta"} {
		entries, err := alice.List(t.Context(), lockstore.Filter{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		var listed, want []string
		for _, entry := range entries {
			listed = append(listed, entry.Key)
			if entry.Token != tokens[entry.Key] {
				t.Errorf("%q is listed with token %s, granted %s", entry.Key, entry.Token, tokens[entry.Key])
			}
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		if diff := cmp.Diff(want, listed); diff != "" {
			t.Errorf("with prefix %q (-want +listed):\n%s", prefix, diff)
		}
	}
	for _, key := range keys {
		alice.release(t, key, tokens[key], false)
	}
	if session, err := alice.Session(t.Context(), alice.id); err != nil || session.Locks != 0 {
		t.Errorf("the session has %d locks after all were released, %v", session.Locks, err)
	}
}

// A lost answer is an unknown outcome, whether the change was made or not, and the
// session makes the next try re-enter. What never left was not done, and is said so.
//
// Clauses: K-2.9, K-10.1
// Mutation: have classify take every error for one of a request that never left.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]locktest.Cut{"not done": locktest.BeforeCommit, "done": locktest.AfterCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, c := options(t), new(cutter)
			alice := newClient(t, etcd.Between(opts, c.between), "alice", time.Hour)
			other := open(t, opts)
			alice.release(t, "first", alice.lock(t, "first"), false) // what is done once is done
			lost := func(what string, change func() error) {
				t.Helper()
				c.cut(where)
				err := change()
				if unknown := (*lockstore.UnknownOutcomeError)(nil); !errors.As(err, &unknown) || !strings.Contains(unknown.Doing, what) {
					t.Errorf("%s: %v, want an unknown outcome", what, err)
				}
			}
			lost("acquire", func() error { _, err := alice.Acquire(t.Context(), alice.wants("k")); return err })
			entry, err := other.Show(t.Context(), "k")
			if done := err == nil; done != (where == locktest.AfterCommit) {
				t.Fatalf("acquired: %+v, %v", entry, err)
			}
			token := alice.lock(t, "k")
			if token <= entry.Token {
				t.Errorf("re-entry after a lost answer has token %s, not above %s", token, entry.Token)
			}
			lost("renew", func() error { _, err := alice.Renew(t.Context(), "k", token, time.Minute); return err })
			lost("heartbeat", func() error { _, err := alice.Heartbeat(t.Context(), alice.id, time.Minute); return err })
			lost("revoke", func() error {
				_, err := alice.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: token, Operator: "erin", Reason: "why"})
				return err
			})
			lost("create session", func() error { _, err := alice.CreateSession(t.Context(), "alice", time.Hour); return err })
			lost("end session", func() error { _, err := alice.EndSession(t.Context(), alice.id); return err })
		})
	}
}

// A release whose answer was lost may be sent again for ever: it touches no newer grant
// of the key, of the same session either (etcd#22082).
//
// Clauses: K-2.7, K-10.1
// Mutation: compare in release that the key is there, instead of its revision.
func TestReleaseSentAgain(t *testing.T) {
	t.Parallel()
	opts, c := options(t), new(cutter)
	alice := newClient(t, etcd.Between(opts, c.between), "alice", time.Hour)
	old := alice.lock(t, "k")
	c.cut(locktest.AfterCommit)
	if _, err := alice.Release(t.Context(), "k", old); err == nil {
		t.Fatal("the answer to the release was not lost")
	}
	current := alice.lock(t, "k")
	another := open(t, opts)
	for range 3 {
		alice.release(t, "k", old, true)
		client{another, "", ""}.release(t, "k", old, true)
	}
	if entry, err := another.Show(t.Context(), "k"); err != nil || entry.Token != current {
		t.Errorf("the newer grant %s: %+v, %v", current, entry, err)
	}
}

// A lease is never shorter than asked for, though etcd counts in seconds.
//
// Clauses: K-2.10, K-10.1
// Mutation: have seconds round down.
func TestLeaseIsNotShorter(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice := newClient(t, opts, "alice", 20100*time.Millisecond)
	raw := etcdtest.Single(t).Client(t)
	granted := func() time.Duration {
		t.Helper()
		left, err := alice.lease(t.Context(), raw, opts)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(left.GrantedTTL) * time.Second
	}
	if got := granted(); got < 20100*time.Millisecond {
		t.Errorf("a session for 20.1s hangs on a lease of %s", got)
	}
	token := alice.lock(t, "k")
	if _, err := alice.Renew(t.Context(), "k", token, 50500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := granted(); got < 50500*time.Millisecond {
		t.Errorf("a lock renewed for 50.5s hangs on a lease of %s", got)
	}
}

// A session of more locks than one transaction takes ends at once, with all of them.
//
// Clauses: K-2.4, K-10.1
// Mutation: leave sweep after its first round.
func TestSessionOfManyLocks(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice, bob := newClient(t, opts, "alice", time.Hour), newClient(t, opts, "bob", time.Hour)
	const locks = 130
	for i := range locks {
		alice.lock(t, "many/"+string(rune('a'+i%26))+strings.Repeat("x", i/26))
	}
	kept := bob.lock(t, "kept")
	if n, err := bob.EndSession(t.Context(), alice.id); err != nil || n != locks {
		t.Errorf("ended with %d locks, %v, want %d", n, err, locks)
	}
	entries, err := bob.List(t.Context(), lockstore.Filter{})
	if err != nil || len(entries) != 1 || entries[0].Token != kept {
		t.Errorf("left: %+v, %v", entries, err)
	}
	if sessions, err := bob.Sessions(t.Context(), lockstore.SessionFilter{}); err != nil || len(sessions) != 1 || sessions[0].ID != bob.id {
		t.Errorf("sessions left: %+v, %v", sessions, err)
	}
}

// How a grant ended is told by the transaction that ended it.
//
// Clauses: K-11, K-10.1
// Mutation: write another word in any of them.
func TestJournalTellsHowGrantsEnded(t *testing.T) {
	t.Parallel()
	opts := options(t)
	alice, bob := newClient(t, opts, "alice", time.Hour), newClient(t, opts, "bob", time.Hour)
	short := newClient(t, opts, "carol", time.Hour)
	want := map[lockstore.Token]string{}
	taken, pruned, reaped := short.lock(t, "taken"), short.lock(t, "pruned"), short.lock(t, "reaped")
	short.end(t, opts)
	bob.lock(t, "taken")
	want[taken] = "taken_over"
	if got, err := bob.Prune(t.Context(), 0, 1); err != nil || len(got) != 1 || got[0].Token != pruned {
		t.Fatalf("pruned %+v, %v, want the first by key, with token %s", got, err, pruned)
	}
	want[pruned] = "expired"
	if got, err := bob.ReapSessions(t.Context(), 10); err != nil || got.Sessions != 1 || got.Locks != 1 {
		t.Fatalf("reaped %+v, %v", got, err)
	}
	want[reaped] = "reaped"
	first := alice.lock(t, "k")
	want[first], want[alice.lock(t, "k")] = "re_entered", ""
	released := alice.lock(t, "r")
	alice.release(t, "r", released, false)
	want[released] = "released"
	for token, ended := range want {
		if got, err := bob.GrantHistory(t.Context(), token); err != nil || got.Ended != ended || got.Token != token || got.EndedAt.IsZero() != (ended == "") {
			t.Errorf("token %s: %+v, %v, want ended %q", token, got, err, ended)
		}
	}
}
