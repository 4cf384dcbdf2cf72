//go:build unix

package services_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
)

// Three executors pay what customers order, at a rail in a bad mood, while a nemesis
// kills, stops and restarts everything, both databases included: each payout is paid
// once at the rail and posted once here, or neither; all agrees; and what clients were
// told of locks meanwhile is what a fenced mutex could have told them. Each service
// exports the metrics that docs/services.md says it does.
//
// Clauses: K-1.3, K-1.4, K-2.9, K-2.10, K-4.1, K-4.2, K-5.2, K-5.3, K-7.6
// Mutation: TestFencingOff; forward a repeated attempt in paystore/rail; take a silent
// rail for NOT_FOUND in executor's verdict; leave Pool out of serve, or a service out of a
// metric's row in docs/services.md.
func TestNemesis(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	f := newFleet(t, nil)
	f.mood(t, railsim.Mood{Name: railsim.Flaky, Seed: seed, DelayMS: 300, RejectP: .05, DelayP: .1, SilentP: .05, AnswerTwiceP: .05, LoseAnswerP: .1})
	f.hire(t)

	c := &customer{fleet: f, made: map[string]payapi.Payout{}}
	n := &nemesis{fleet: f, random: rand.New(rand.NewPCG(uint64(seed), 1)), done: map[string]int{}}
	stop := make(chan struct{})
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error { return c.order(ctx, stop, 60*time.Millisecond, rand.New(rand.NewPCG(uint64(seed), 2))) })
	least := locktest.Stats{Clients: contenders, Keys: 3, Ops: 300, Takeovers: 3, Unknown: 1}
	contend, unknown := f.contenders(t, stop, uint64(seed))
	contend.Least = locktest.Stats{Ops: least.Ops, Takeovers: least.Takeovers} // no outcome is unknown when all is well
	var history locktest.History
	group.Go(func() (err error) {
		history, err = contend.Run(ctx)
		return err
	})
	n.rage(t, soak(t, 25*time.Second), func() bool { return unknown.Load() >= int64(least.Unknown) })
	close(stop)
	for _, s := range f.all() {
		s.ready(t)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	f.mood(t, railsim.Mood{Name: railsim.Ack})
	f.settled(t)
	for _, s := range f.all() {
		s.exportsAsDocumented(t)
	}
	f.once(t)
	f.fencedHistory(t)
	f.clean(t)
	locktest.Require(t, history, locktest.RulesOf(capabilities()), least)
	for _, s := range f.all() {
		s.terminate(t)
		if s.err != nil {
			t.Errorf("%s ended with %v: %s", s.name, s.err, s.tail())
		}
	}
}

func capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

// contenders are other clients of lock-server, on keys of their own.
const contenders = 6

// contenders make a history of what clients of lock-server are told, until the end, and
// count the acquires that nobody knows the outcome of.
func (f *fleet) contenders(t *testing.T, stop <-chan struct{}, seed uint64) (locktest.Workload, *atomic.Int64) {
	t.Helper()
	lockdb, err := postgres.Open(t.Context(), postgres.Options{Config: f.lock.Config(t, "t_auditor"), Purpose: postgres.Reading, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lockdb.Close)
	clients, unknown := make([]locktest.Client, contenders), &atomic.Int64{}
	for i := range clients {
		locks, err := client.NewLocks(client.Options{URL: f.locks.url, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(locks.Close)
		clients[i].Store = waiting{locks, lockdb, unknown}
	}
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	return locktest.Workload{Clients: clients, Keys: 3, Seed: seed, Until: over, Limit: time.Hour}, unknown
}

// waiting is a client of a lock-server that grants nothing for a while after a restart:
// to the history that is one that cannot be reached. It looks at lockdb itself, for
// over HTTP times are whole milliseconds, too few for the history to be judged by.
type waiting struct {
	*client.Locks

	lockdb  lockstore.Store
	unknown *atomic.Int64
}

func (w waiting) Show(ctx context.Context, key string) (lockstore.Entry, error) {
	return w.lockdb.Show(ctx, key)
}

func (w waiting) Acquire(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	grant, err := w.Locks.Acquire(ctx, p)
	if closed, ok := errors.AsType[*lockstore.GrantsClosedError](err); ok {
		err = &lockstore.UnreachableError{Doing: "acquire", Err: closed}
	}
	if _, ok := errors.AsType[*lockstore.UnknownOutcomeError](err); ok {
		w.unknown.Add(1)
	}
	return grant, err
}

// A holder that stalled past its lease comes back when others have paid its payout, at
// a rail that pays a key as often as it is asked to. With fencing it is refused; with
// fencing switched off the payout is paid twice: at the rail, and never in the ledger.
// Over etcd the tokens are its revisions, and paydb's fences know no difference.
//
// Clauses: K-4.1, K-4.5, K-5.3, K-10.1
// Mutation: leave the mark out of paystore/rail's take: the first half turns red.
func TestFencingOff(t *testing.T) {
	t.Parallel()
	off := map[string]string{"DLOCKCTL_PAYMENT_FENCING_ENABLED": "false", "DLOCKCTL_RAIL_PROXY_FENCING_ENABLED": "false"}
	for name, c := range map[string]struct {
		settings map[string]string
		etcd     bool
		want     int
	}{"on": {want: 1}, "off": {settings: off, want: 2}, "on, over etcd": {etcd: true, want: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What the rail reads later than that it pays to nobody.
			settings := map[string]string{"DLOCKCTL_RAIL_DEADLINE": "10s"}
			maps.Copy(settings, c.settings)
			f := newFleetOn(t, settings, lockPlace(t, c.etcd))
			f.mood(t, railsim.Mood{Name: railsim.Broken})
			key := f.stall(t)
			paid := f.paid(t)[key].Paid
			if want := c.want; paid != want {
				t.Errorf("with fencing %s the rail paid %d times, want %d", name, paid, want)
			}
			f.settled(t)
			var legs int
			if err := conn(t, f.pay).QueryRow(t.Context(), `SELECT count(*) FROM ledger_entry`).Scan(&legs); err != nil || legs != 2 {
				t.Errorf("%d legs, want 2: %v", legs, err)
			}
		})
	}
}

// lockPlace is what lock-server is told of an etcd cluster, nil for lockdb.
func lockPlace(t *testing.T, onEtcd bool) map[string]string {
	t.Helper()
	if !onEtcd {
		return nil
	}
	return map[string]string{
		"DLOCKCTL_BACKEND": "etcd", "DLOCKCTL_ETCD_ENDPOINTS": etcdtest.Single(t).Endpoint(0), "DLOCKCTL_ETCD_PREFIX": etcdtest.Prefix(t),
	}
}

// stall plays a holder that stalls before the rail, until the executors have paid, and
// then goes on. It returns the rail's key of the payout.
func (f *fleet) stall(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	locks, err := client.NewLocks(client.Options{URL: f.locks.url})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	rail, err := client.NewRail(client.Options{URL: f.proxy.url})
	if err != nil {
		t.Fatal(err)
	}
	defer rail.Close()
	const account = "00000000-0000-4000-8000-000000000001"
	amount := int64(4711)
	payout, _, err := f.payments.Create(ctx, payapi.CreatePayout{AccountID: account, AmountMinor: &amount, Currency: "EUR", IdempotencyKey: "stalled"})
	if err != nil {
		t.Fatal(err)
	}
	var grant lockstore.Grant
	pgtest.Eventually(t, "the holder has the lock", func(ctx context.Context) (bool, error) {
		// Over etcd a lock ends with its session, and not before.
		session, err := locks.CreateSession(ctx, "stalls", 5*time.Second)
		if err == nil {
			grant, err = locks.Acquire(ctx, lockstore.AcquireParams{Key: "account:" + account, Owner: "stalls", Session: session.ID, TTL: 500 * time.Millisecond})
		}
		if _, away := errors.AsType[*lockstore.UnreachableError](err); away || errors.Is(err, lockstore.ErrSessionLost) {
			return false, nil // a machine that stood still
		}
		return err == nil, err
	})
	token := paystore.Token(grant.Token)
	if _, err := f.payments.Claim(ctx, payout.PayoutID, "stalls", token); err != nil {
		t.Fatal(err)
	}
	if _, err := f.payments.Submit(ctx, payout.PayoutID, token); err != nil {
		t.Fatal(err)
	}
	f.hire(t)
	f.settled(t)
	_, err = rail.Submit(ctx, payout.PayoutID, token)
	t.Logf("the holder that stalled is told: %v", err)
	return payout.IdempotencyKey
}
