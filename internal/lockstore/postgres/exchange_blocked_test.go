package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// However many keys of an exchange are blocked, by acquires, renewals or the end of a
// session that have not committed, they are taken out together, each with an answer
// of its own, and the rest is carried out in the second run.
//
// Clauses: K-2.4, K-2.11
// Mutation: let bySets go on by single statements after a lock timeout, each of which
// costs a run; or leave one of the three tries out of queueTries.
func TestExchangeTakesOutAllThatIsBlockedAtOnce(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice, bob, leaving := b.session(t, "alice"), b.session(t, "bob"), b.session(t, "carol")
		var x postgres.Exchange
		give := func(i int, prefix string) {
			key := fmt.Sprint(prefix, i)
			x.Releases = append(x.Releases, lockstore.GrantRef{Key: key, Token: b.acquire(t, key, "alice", alice, time.Hour).Token})
		}
		for i := range 15 {
			give(i, "stuck-")
			give(i, "mine-")
			b.acquire(t, fmt.Sprint("held-", i), "bob", bob, time.Hour)
			b.acquire(t, fmt.Sprint("again-", i), "alice", alice, time.Hour)
			for _, prefix := range []string{"blocked-", "held-", "again-", "mine-"} {
				x.Acquires = append(x.Acquires, acquireParams("alice", alice, fmt.Sprint(prefix, i))...)
			}
		}
		x.Acquires = append(x.Acquires, acquireParams("carol", leaving, "left")...)
		tx, err := b.dbs.Lock.Conn(t, "t_lockapp").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // ends the block at the end of the test
		for _, sql := range []string{
			`INSERT INTO lock_entry SELECT 'blocked-' || i, 'bob', '` + string(bob) + `', 1, now(), now() + interval '1 hour' FROM generate_series(0, 14) i`,
			`UPDATE lock_entry SET expires_at = now() + interval '2 hours' WHERE lock_key LIKE 'stuck-%' OR lock_key LIKE 'again-%' OR lock_key LIKE 'held-%'`,
			`SELECT FROM lock_session WHERE session_id = '` + string(leaving) + `' FOR UPDATE`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		result, err := b.store.Exchange(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		if result.Runs != 2 {
			t.Errorf("%d runs for 46 that are blocked, want 2", result.Runs)
		}
		for i, r := range result.Releases {
			blocked, ok := errors.AsType[*lockstore.BlockedError](r.Err)
			if stuck := strings.HasPrefix(x.Releases[i].Key, "stuck-"); stuck != ok || !stuck && (r.Err != nil || r.Release.Stale) || stuck && len(blocked.PIDs) != 1 {
				t.Errorf("release %s: %+v", x.Releases[i].Key, r)
			}
		}
		want := map[string]string{"blocked": "blocked", "held": "held", "again": "blocked", "mine": "granted", "left": "blocked"}
		for i, r := range result.Acquires {
			key := x.Acquires[i].Key
			prefix, _, _ := strings.Cut(key, "-")
			blocked, ok := errors.AsType[*lockstore.BlockedError](r.Err)
			if told(r.Grant, r.Err) != want[prefix] || ok && prefix != "left" && len(blocked.PIDs) != 1 {
				t.Errorf("acquire %s: %+v, want %s", key, r, want[prefix])
			}
		}
	})
}
