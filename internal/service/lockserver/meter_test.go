package lockserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// Who asks through the server sees its queue, key by key, and how busy the store
// behind it is; the release that hands a lock on to the next in the queue is timed.
//
// Mutation: leave countWaiters out of list or show, HandOff out of settle, or since out
// of the client's Pulse.
func TestShowsItsQueue(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]lockserver.Options{
		"postgres": options(pgtest.Migrated(t, 16).Lock.Config(t, "t_lockapp")),
		"etcd":     func() lockserver.Options { opts, _ := onEtcd(t, etcdtest.Single(t)); return opts }(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, opts, "").ready(t)
			c, locks := caller{s, ""}, locksOf(t, s)
			before, err := insist(t.Context(), func() (lockstore.Pulse, error) { return locks.Pulse(t.Context(), 0) })
			if err != nil {
				t.Fatal(err)
			}
			held := c.acquire(t, "k", c.session(t, "alice"))
			c.acquire(t, "k/2", c.session(t, "alice"))
			answers := make(chan answer, 2)
			for _, owner := range []string{"bob", "carol"} {
				session := c.session(t, owner)
				go func() {
					answers <- c.insist(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session.SessionID, TTLMS: 60_000, WaitMS: 300_000})
				}()
			}
			pgtest.Eventually(t, "two wait", func(ctx context.Context) (bool, error) {
				entry, err := insist(ctx, func() (lockstore.Entry, error) { return locks.Show(ctx, "k") })
				return entry.Waiters == 2, err
			})
			entries, err := insist(t.Context(), func() ([]lockstore.Entry, error) { return locks.List(t.Context(), lockstore.Filter{}) })
			if err != nil || len(entries) != 2 || entries[0].Waiters != 2 || entries[1].Waiters != 0 {
				t.Errorf("the list: %+v, %v", entries, err)
			}
			pulse, err := insist(t.Context(), func() (lockstore.Pulse, error) { return locks.Pulse(t.Context(), before.Last) })
			if err != nil || pulse.Grants != 2 || pulse.Last <= before.Last {
				t.Errorf("two grants later: %+v after %+v, %v", pulse, before, err)
			}
			token := held.TokenStr
			for range cap(answers) {
				c.insist(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, token)
				token = (<-answers).header.Get(lockapi.TokenHeader)
			}
			pgtest.Eventually(t, "two hand-offs are timed", func(ctx context.Context) (bool, error) {
				return strings.Contains(string(c.doIn(ctx, t, http.MethodGet, "/metrics", nil).body), "\ndlockctl_hand_off_seconds_count 2\n"), nil
			})
		})
	}
}

// A store that does not count says so, and is not asked to.
//
// Mutation: answer a zero pulse in oneByOne.
func TestStoreThatDoesNotCount(t *testing.T) {
	t.Parallel()
	opts, store := onEtcd(t, etcdtest.Single(t))
	opts.Open = func(ctx context.Context, _ func(context.Context) (lockstore.Token, error)) (lockserver.Backend, error) {
		opened, err := etcd.Open(ctx, store)
		return lockserver.OneByOne(struct{ lockserver.Single }{opened}), err
	}
	s := serve(t, opts, "").ready(t)
	if _, err := locksOf(t, s).Pulse(t.Context(), 0); !errors.Is(err, lockstore.ErrUnsupported) {
		t.Errorf("pulse: %v", err)
	}
}

// Readiness names the lockdb, so that doctor can tell whether it looks at the same one.
//
// Mutation: leave the database out of Ready.
func TestTellsItsDatabase(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	want, err := instance.Identity(t.Context(), dbs.Lock.Conn(t, "t_auditor"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t)
	_, conditions := s.health(t.Context(), t)
	at := conditions["lockdb"].Database
	if at == nil || at.Identity != want || at.MaxSchema != postgres.MaxSchema {
		t.Errorf("readiness tells %+v, want %s", at, want)
	}
	if other, err := instance.Identity(t.Context(), dbs.Pay.Conn(t, "t_auditor")); err != nil || other == want {
		t.Errorf("paydb is %s, %v; lockdb is %s", other, err, want)
	}
}
