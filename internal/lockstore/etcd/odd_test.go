package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// listed are the keys of a list, those that cannot be read marked.
func listed(t *testing.T, store lockstore.Store, filter lockstore.Filter) string {
	t.Helper()
	entries, err := store.List(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(entries))
	for i, e := range entries {
		if keys[i] = e.Key; e.State == lockstore.Unreadable {
			keys[i] += "!"
		}
	}
	return strings.Join(keys, " ")
}

func tokenOf(t *testing.T, store lockstore.Store, key string) lockstore.Token {
	t.Helper()
	entry, err := store.Show(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Token
}

func isUnsafe(err error, says string) bool {
	unsafe, is := errors.AsType[*lockstore.UnsafeError](err)
	return is && strings.Contains(unsafe.Problem, says) && unsafe.Fix != ""
}

// A value that is no record of its lock hides no other: it is listed by its key and marked,
// shown, granted to nobody, and taken away by a revoke with its audit record, which leaves
// the audit in order. What asks for a holder's locks does not find it, for nobody knows
// whose it is.
//
// Clauses: K-10.1, K-3.1
// Mutation: return the error of a value from look; leave odd out of matches, refusal,
// Renew, Release or lookAtSession; leave the key or the session out of readLock.
func TestOddValueHidesNothing(t *testing.T) {
	t.Parallel()
	raw := etcdtest.Single(t).Client(t)
	for name, value := range map[string]string{"no JSON": "account:7 hidden", "empty": "", "no fields": "{}", "no session": `{"key":"b/ü","owner":"o"}`, "of another key": `{"key":"a","owner":"o","session_id":"00000000-0000-4000-8000-000000000000"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t)
			alice := newClient(t, opts, "alice", time.Hour)
			for _, key := range []string{"a", "b/ü", "c"} {
				alice.lock(t, key)
			}
			put, err := raw.Put(t.Context(), opts.Prefix+"lock/b%2F%C3%BC", value)
			if err != nil {
				t.Fatal(err)
			}
			token := lockstore.Token(put.Header.Revision)
			for _, c := range []struct {
				filter lockstore.Filter
				want   string
			}{
				{lockstore.Filter{}, "a b/ü! c"},
				{lockstore.Filter{Prefix: "b/"}, "b/ü!"},
				{lockstore.Filter{Limit: 2}, "a b/ü!"},
				{lockstore.Filter{Owner: "alice"}, "a c"},
				{lockstore.Filter{Session: alice.id}, "a c"},
				{lockstore.Filter{Expired: true}, ""},
			} {
				if got := listed(t, alice, c.filter); got != c.want {
					t.Errorf("%+v lists %q, want %q", c.filter, got, c.want)
				}
			}
			entry, err := alice.Show(t.Context(), "b/ü")
			if err != nil || entry.State != lockstore.Unreadable || entry.Token != token || entry.Expired || !entry.ExpiresAt.Infinite || entry.Owner+string(entry.Session) != "" {
				t.Errorf("shown %+v, %v", entry, err)
			}
			bob := newClient(t, opts, "bob", time.Hour)
			for who, c := range map[string]client{"another": bob, "the holder of before": alice} {
				if _, err := c.Acquire(t.Context(), c.wants("b/ü")); !isUnsafe(err, `lock "b/ü" has a value in etcd that cannot be read`) || strings.Contains(err.Error(), "hidden") {
					t.Errorf("acquired by %s: %v", who, err)
				}
			}
			if _, err := bob.Wait(t.Context(), lockstore.WaitParams{AcquireParams: bob.wants("b/ü"), Max: time.Minute}); !isUnsafe(err, "cannot be read") {
				t.Errorf("waited for: %v", err)
			}
			if _, err := alice.Renew(t.Context(), "b/ü", token, time.Minute); !isUnsafe(err, "cannot be read") {
				t.Errorf("renewed: %v", err)
			}
			if got, err := bob.Release(t.Context(), "b/ü", token); !isUnsafe(err, "cannot be read") {
				t.Errorf("released: %+v, %v", got, err)
			}
			if _, err := alice.GrantHistory(t.Context(), token); !isUnsafe(err, "cannot be read") {
				t.Errorf("explained: %v", err)
			}
			params := lockstore.RevokeParams{Key: "b/ü", Token: token, Operator: "erin", Reason: "no record", EndSession: true}
			if _, err := bob.Revoke(t.Context(), params); !isUnsafe(err, "cannot be read") {
				t.Errorf("revoked with its session: %v", err)
			}
			params.EndSession = false
			outcome, err := bob.Revoke(t.Context(), params)
			if err != nil || outcome.Outcome != lockstore.Revoked || outcome.Token != token {
				t.Fatalf("revoked: %+v, %v", outcome, err)
			}
			bob.lock(t, "b/ü")
			if got := listed(t, alice, lockstore.Filter{}); got != "a b/ü c" {
				t.Errorf("at the end there is %q", got)
			}
			if report, err := bob.VerifyAudit(t.Context()); err != nil || len(report.Findings) > 0 || report.Revocations != 1 {
				t.Errorf("the audit: %+v, %v", report, err)
			}
		})
	}
}

// A sweep, a bulk revoke by prefix and a watch go past a value that cannot be read, a wait
// for its key ends, and an unreadable record hides no other session; no error shows a
// session's id.
//
// Clauses: K-2.4, K-2.12, K-3.4, K-10.1
// Mutation: return the error of a value from sweep, Sessions or lockEvent; name the key in
// readSession; leave odd out of holder.
func TestOddValueStopsNothing(t *testing.T) {
	t.Parallel()
	raw := etcdtest.Single(t).Client(t)
	opts := options(t)
	alice, bob := newClient(t, opts, "alice", time.Hour), newClient(t, opts, "bob", time.Hour)
	for _, key := range []string{"a", "b", "c"} {
		alice.lock(t, key)
	}
	bob.lock(t, "d")
	put := func(name, value string) {
		t.Helper()
		if _, err := raw.Put(t.Context(), opts.Prefix+name, value); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	done := errors.New("the watch has told enough")
	var told []string
	err := alice.Watch(ctx, lockstore.Filter{}, func(change lockstore.Change) error {
		told = append(told, fmt.Sprintf("%s %s%s", change.Kind, change.Key, change.Entry.State))
		switch len(told) {
		case 4:
			put("lock/b", "x")
		case 5:
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || told[len(told)-1] != "held bunreadable" {
		t.Errorf("the watch told %q, %v", told, err)
	}
	waiting := lockstore.WaitParams{AcquireParams: bob.wants("c"), Max: 30 * time.Second, Waiting: func(held *lockstore.HeldError) {
		if held.Owner == "alice" {
			put("lock/c", "x")
		}
	}}
	if _, err := bob.Wait(t.Context(), waiting); !isUnsafe(err, `lock "c"`) {
		t.Errorf("waited for: %v", err)
	}
	if _, err := bob.Revoke(t.Context(), lockstore.RevokeParams{Key: "c", Token: tokenOf(t, bob, "c"), Operator: "erin", Reason: "no record"}); err != nil {
		t.Fatal(err)
	}
	if locks, err := alice.EndSession(t.Context(), alice.id); err != nil || locks != 3 {
		t.Errorf("ended with %d locks: %v", locks, err)
	}
	if got := listed(t, bob, lockstore.Filter{}); got != "b! d" {
		t.Errorf("after the session there is %q", got)
	}
	outcomes, err := bob.RevokeMany(t.Context(), lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "b"}, Operator: "erin", Reason: "no record", Expect: 1})
	if err != nil || len(outcomes) != 1 || outcomes[0].Key != "b" {
		t.Errorf("revoked %+v, %v", outcomes, err)
	}

	carol := newClient(t, opts, "carol", time.Hour)
	put("session/"+string(carol.id), "x")
	sessions, err := bob.Sessions(t.Context(), lockstore.SessionFilter{})
	if err != nil || len(sessions) != 2 || !slices.ContainsFunc(sessions, func(s lockstore.Session) bool { return s.ID == carol.id && s.Owner == "" && s.Remaining > 0 }) {
		t.Errorf("sessions %+v, %v", sessions, err)
	}
	put("alive/"+string(carol.id), "x")
	_, shown := bob.Session(t.Context(), carol.id)
	_, beat := open(t, opts).Heartbeat(t.Context(), carol.id, time.Minute)
	for _, err := range []error{shown, beat} {
		if err == nil || strings.Contains(err.Error(), string(carol.id)) || !strings.Contains(err.Error(), carol.id.Masked()) {
			t.Errorf("a session that cannot be read: %v", err)
		}
	}
	if _, err := bob.EndSession(t.Context(), carol.id); err != nil {
		t.Errorf("ended: %v", err)
	}
}

// An etcd key that is no name of a lock hides none: it is listed as itself, with no token to
// revoke it by, beside the lock whose key it resembles; a watch tells when it is gone.
//
// Clauses: K-3.1, K-10.1
// Mutation: have keyOf tell what follows locks, or leave nameless out of describe; compare
// what a watch has told with keys.lock in lockEvent.
func TestOddNameIsNoLock(t *testing.T) {
	t.Parallel()
	raw := etcdtest.Single(t).Client(t)
	opts := options(t)
	alice := newClient(t, opts, "alice", time.Hour)
	token, name := alice.lock(t, "x y"), opts.Prefix+"lock/x y"
	if _, err := raw.Put(t.Context(), name, "x"); err != nil {
		t.Fatal(err)
	}
	entries, err := alice.List(t.Context(), lockstore.Filter{})
	if err != nil || len(entries) != 2 {
		t.Fatalf("listed %+v, %v", entries, err)
	}
	for _, e := range entries {
		if odd := e.State == lockstore.Unreadable; odd && (e.Key != name || e.Token != 0) || !odd && (e.Key != "x y" || e.Token != token) {
			t.Errorf("listed %+v", e)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := errors.New("the watch has told enough")
	var told []string
	err = alice.Watch(ctx, lockstore.Filter{}, func(change lockstore.Change) error {
		if told = append(told, string(change.Kind)+" "+change.Key); len(told) == 3 {
			return done
		} else if len(told) == 2 {
			_, err := raw.Delete(ctx, name)
			return err
		}
		return nil
	})
	if !errors.Is(err, done) || told[2] != "gone "+name {
		t.Errorf("the watch told %q, %v", told, err)
	}
}

// A fast-forward voids what cannot be read with the rest, also under a name that no lock
// of ours has, and two that one transaction wrote, which have one token.
//
// Clauses: K-7.5, K-10.1
// Mutation: take the lock's key in place of nameOf in asSeen or end: it never ends; journal
// the end of what cannot be read.
func TestOddValueIsVoided(t *testing.T) {
	t.Parallel()
	raw := etcdtest.Single(t).Client(t)
	opts := options(t)
	alice := newClient(t, opts, "alice", time.Hour)
	alice.lock(t, "a")
	var odd []clientv3.Op
	for _, name := range []string{"lock/b", "lock/c", "lock/x y"} {
		odd = append(odd, clientv3.OpPut(opts.Prefix+name, "x"))
	}
	if _, err := raw.Txn(t.Context()).Then(odd...).Commit(); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, alice, lockstore.Filter{}); strings.Count(got, "!") != 3 {
		t.Errorf("there is %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if voided, err := etcd.VoidLocks(ctx, alice.Store, "erin", "restored"); err != nil || voided != 4 {
		t.Errorf("voided %d, %v", voided, err)
	}
	if got := listed(t, alice, lockstore.Filter{}); got != "" {
		t.Errorf("there is still %q", got)
	}
}
