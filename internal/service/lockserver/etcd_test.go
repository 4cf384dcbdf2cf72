package lockserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// onEtcd are the options of a lock-server on a cluster, below a prefix of its own.
func onEtcd(t *testing.T, cluster *etcdtest.Cluster) (lockserver.Options, etcd.Options) {
	t.Helper()
	store := etcd.Options{Endpoints: cluster.Endpoints(), Prefix: etcdtest.Prefix(t), Purpose: etcd.Changing}
	opts := options(nil)
	opts.Name = "etcd"
	opts.Open = func(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (lockserver.Backend, error) {
		store := store
		store.PayHighest = highest
		opened, err := etcd.Open(ctx, store)
		if err != nil {
			return nil, err
		}
		return lockserver.OneByOne(opened), nil
	}
	return opts, store
}

func locksOf(t *testing.T, s *server) *client.Locks {
	t.Helper()
	locks, err := client.NewLocks(client.Options{URL: s.url, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locks.Close)
	return locks
}

// insist asks until the store is there, as that of a caller does.
func insist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		answer, err := ask()
		if _, away := errors.AsType[*lockstore.UnreachableError](err); !away || lockstore.Pause(ctx, 50*time.Millisecond) != nil {
			return answer, err
		}
	}
}

// Over etcd the server hands a key on from one holder to the next, each with a higher
// token, to whoever waits in its queue; a batch is answered one by one; and what it
// says of the store is said of etcd.
//
// Clauses: K-10.1, K-1.3, K-2.8
// Mutation: answer a stale release as one that was carried out in oneByOne's release, or
// lockdb's capabilities whatever is served.
func TestServesEtcd(t *testing.T) {
	t.Parallel()
	opts, _ := onEtcd(t, etcdtest.Single(t))
	s := serve(t, opts, "").ready(t)
	locks, ctx := locksOf(t, s), t.Context()
	const holders, key = 4, "account:42"
	var turn sync.Mutex
	var tokens []lockstore.Token
	var all sync.WaitGroup
	for n := range holders {
		all.Go(func() {
			session, err := insist(ctx, func() (lockstore.Session, error) { return locks.CreateSession(ctx, fmt.Sprint("w", n), time.Minute) })
			if err != nil {
				t.Error(err)
				return
			}
			params := lockstore.AcquireParams{Key: key, Owner: session.Owner, Session: session.ID, TTL: time.Minute}
			grant, err := insist(ctx, func() (lockstore.Grant, error) {
				return locks.Wait(ctx, lockstore.WaitParams{AcquireParams: params, Max: time.Minute, SessionTTL: time.Minute})
			})
			if err != nil {
				t.Error(err)
				return
			}
			turn.Lock()
			tokens = append(tokens, grant.Token)
			turn.Unlock()
			release := func() (lockstore.Release, error) { return locks.Release(ctx, key, grant.Token) }
			released, err := insist(ctx, release)
			if err != nil || released.Stale {
				t.Errorf("release %s: %+v, %v", grant.Token, released, err)
			}
			if again, err := insist(ctx, release); err != nil || !again.Stale {
				t.Errorf("release %s again: %+v, %v", grant.Token, again, err)
			}
		})
	}
	all.Wait()
	for i := range tokens {
		if i > 0 && tokens[i] <= tokens[i-1] {
			t.Errorf("tokens %v do not rise", tokens)
		}
	}
	if len(tokens) != holders {
		t.Errorf("%d of %d were granted", len(tokens), holders)
	}
	if err := locks.Learn(ctx); err != nil || locks.Capabilities() != (*etcd.Store)(nil).Capabilities() {
		t.Errorf("what keeps the locks: %+v, %v", locks.Capabilities(), err)
	}
	pgtest.Eventually(t, "etcd is well, and grants", func(ctx context.Context) (bool, error) {
		status, conditions := s.health(ctx, t)
		_, has := conditions["etcd"]
		return status == http.StatusOK && has && conditions["grants"].State == httpd.Good, nil
	})
}

// Call by call, a key that is given back and taken in one exchange goes to the next
// holder, and what stands is seen however many keys are asked about.
//
// Clauses: K-10.1, K-2.7
// Mutation: carry the acquires out before the releases in oneByOne's Exchange; ask List
// for one entry in Look, whatever the keys.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	_, opts := onEtcd(t, etcdtest.Single(t))
	opened, err := etcd.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	ctx, store := t.Context(), lockserver.OneByOne(opened)
	params := func(key, owner string) lockstore.AcquireParams {
		session, err := store.CreateSession(ctx, owner, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return lockstore.AcquireParams{Key: key, Owner: owner, Session: session.ID, TTL: time.Minute}
	}
	first, second, other := params("k", "first"), params("k", "second"), params("other", "third")
	held, err := store.Acquire(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	result, err := store.Exchange(ctx, postgres.Exchange{
		Releases: []lockstore.GrantRef{{Key: "k", Token: held.Token}, {Key: "nobody's", Token: 1}}, Acquires: []lockstore.AcquireParams{second, other},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range result.Acquires {
		if a.Err != nil || a.Grant.Token <= held.Token {
			t.Errorf("acquire %d: %+v, %v; want a token above %s", i, a.Grant, a.Err, held.Token)
		}
	}
	if r := result.Releases; r[0].Err != nil || r[0].Release.Stale || r[1].Err != nil || !r[1].Release.Stale {
		t.Errorf("releases %+v", r)
	}
	many := []string{"k", "other", "free"}
	for i := range 40 {
		many = append(many, fmt.Sprint("free/", i))
	}
	for _, keys := range [][]string{many[:3], many, {}} {
		seen, err := store.Look(ctx, keys)
		if want := min(len(keys), 2); err != nil || len(seen) != want || want > 0 && seen["k"].Owner != "second" {
			t.Errorf("a look at %d keys: %+v, %v", len(keys), seen, err)
		}
	}
	if _, err := store.EndSession(ctx, first.Session); err != nil {
		t.Fatal(err)
	}
	live, err := store.LiveSessions(ctx, []lockstore.SessionID{first.Session, second.Session})
	if err != nil || live[first.Session] || !live[second.Session] {
		t.Errorf("live %v, %v", live, err)
	}
}

// Readiness tells the truth about the cluster: a closed gate grants nothing and lets
// work under way end, a member that is gone is unreachable, and is found again when it
// is back. Callers are not told where it is.
//
// Clauses: K-10.1, K-7.4, K-7.6
// Mutation: let CheckGrants return nil; leave the case of Open out of outward.
func TestReadinessOfEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	opts, store := onEtcd(t, cluster)
	s := serve(t, opts, "").ready(t)
	locks, ctx := locksOf(t, s), t.Context()
	const life = 10 * time.Minute // it outlives the cluster's death, however long that takes
	session, err := insist(ctx, func() (lockstore.Session, error) { return locks.CreateSession(ctx, "w", life) })
	if err != nil {
		t.Fatal(err)
	}
	params := lockstore.AcquireParams{Key: "k", Owner: "w", Session: session.ID, TTL: life}
	acquire := func() (lockstore.Grant, error) { return locks.Acquire(ctx, params) }
	before, err := insist(ctx, acquire)
	if err != nil {
		t.Fatal(err)
	}

	gate, err := etcd.OpenRewinder(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close(ctx)
	change := lockstore.GateChange{Operator: "erin@ops", Reason: "ticket 7"}
	if _, err := gate.CloseGate(ctx, change); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "the server does not grant", func(ctx context.Context) (bool, error) {
		status, conditions := s.health(ctx, t)
		return status == http.StatusServiceUnavailable && strings.Contains(conditions["grants"].Reason, "ticket 7") && conditions["etcd"].State == httpd.Good, nil
	})
	if _, err := insist(ctx, acquire); err == nil || !strings.Contains(err.Error(), "ticket 7") {
		t.Errorf("acquire through a closed gate: %v", err)
	}
	if _, err := insist(ctx, func() (lockstore.Grant, error) { return locks.Renew(ctx, "k", before.Token, life) }); err != nil {
		t.Errorf("renew through a closed gate: %v", err)
	}
	if _, err := gate.OpenGate(ctx, change); err != nil {
		t.Fatal(err)
	}
	s.ready(t)

	cluster.Kill(t, 0)
	pgtest.Eventually(t, "the server has noticed", func(ctx context.Context) (bool, error) {
		status, conditions := s.health(ctx, t)
		return status == http.StatusServiceUnavailable && conditions["etcd"].State == httpd.Failed, nil
	})
	_, err = locks.Acquire(ctx, params)
	if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("acquire from a cluster that is gone: %v", err)
	}
	cluster.Restart(t, 0)
	s.ready(t)
	again, err := insist(ctx, acquire)
	if err != nil || again.Token <= before.Token {
		t.Errorf("after the restart: %+v, %v; want a token above %s", again, err, before.Token)
	}
}
