package executor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/executor"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// atTheBrink is a lock-server over etcd, whose holder died: until the cluster has ended
// its lease that stands at its last millisecond.
type atTheBrink struct {
	executor.Locks

	shown atomic.Int64
}

func (b *atTheBrink) Show(_ context.Context, key string) (lockstore.Entry, error) {
	b.shown.Add(1)
	return lockstore.Entry{Key: key, Owner: "another", Token: 1, Remaining: time.Millisecond}, nil
}

// A lease that is said to be all but over is not asked about all the time.
//
// Clauses: K-2.8
// Mutation: leave leastRest out of notGranted.
func TestLeaseAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	w.create(t, account(1), 100)
	locks := &atTheBrink{Locks: w.locks}
	w.start(t, "a", func(o *executor.Options) { o.Locks = locks })
	eventually(t, "it looks", func() bool { return locks.shown.Load() > 0 })
	began, before := time.Now(), locks.shown.Load()
	<-time.After(time.Second)
	if n, most := locks.shown.Load()-before, 2+int64(time.Since(began)/(100*time.Millisecond)); n > most {
		t.Errorf("%d looks in %s, at most %d", n, time.Since(began), most)
	}
}

// refusing refuses to let one payout be claimed, and counts how often it was asked.
type refusing struct {
	executor.Payments

	payout string
	err    error
}

func (r refusing) Claim(ctx context.Context, id, holder string, token paystore.Token) (payapi.Payout, error) {
	if id == r.payout {
		return payapi.Payout{}, r.err
	}
	return r.Payments.Claim(ctx, id, holder, token)
}

// grants counts those of all locks since a token, and returns the last one.
func (w *world) grants(t *testing.T, since lockstore.Token) (int, lockstore.Token) {
	t.Helper()
	pulse, err := w.locks.(lockstore.Meter).Pulse(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return pulse.Grants, pulse.Last
}

// A payout that is left alone hides none behind it on its account, and no token is drawn
// again and again for what rests.
//
// Mutation: look at the first page alone in next.
func TestPayoutThatRestsHidesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	held := w.create(t, account(1), 100)
	gate := refusing{w.payments, held.PayoutID, &paystore.GateClosedError{Message: "paydb was restored"}}
	r := w.start(t, "a", func(o *executor.Options) { o.Payments = gate })
	eventually(t, "it rests for long", func() bool { return r.count(t, "undecided") >= 5 })
	// A rest may end while a slow machine pays the other one: the next is twice as long.
	var again int
	for n := range 3 {
		asked := r.count(t, "undecided")
		_, last := w.grants(t, 0)
		w.create(t, account(1), 200)
		w.until(t, fmt.Sprintf("PENDING 1, POSTED %d", n+1))
		if n, _ := w.grants(t, last); n > 10 {
			t.Errorf("%d grants for one payout", n)
		}
		if again = r.count(t, "undecided") - asked; again == 0 {
			return
		}
	}
	t.Errorf("each time the other came after the one that rests, which was asked for %d times more in the end", again)
}

// A payout that can never be claimed is not asked for all the time.
//
// Mutation: welcome what has moved in ended.
func TestPayoutOfAnotherRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	p := w.create(t, account(1), 100)
	theirs := refusing{w.payments, p.PayoutID, &paystore.ClaimedError{PayoutID: p.PayoutID, By: "another", Token: 1 << 40}}
	r := w.start(t, "a", func(o *executor.Options) { o.Payments = theirs })
	eventually(t, "it is another's", func() bool { return r.count(t, "moved") > 0 })
	before := r.count(t, "moved")
	<-time.After(time.Second)
	if n := r.count(t, "moved") - before; n > 6 {
		t.Errorf("asked %d times more in a second", n)
	}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	pgtest.Eventually(t, what, func(context.Context) (bool, error) { return so(), nil })
}

// losing ends the session under which it is asked to renew for the first time, and says
// so.
type losing struct {
	executor.Locks

	session atomic.Value
	lost    atomic.Bool
}

func (l *losing) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	l.session.Store(params.Session)
	return l.Locks.Acquire(ctx, params)
}

func (l *losing) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	if l.lost.CompareAndSwap(false, true) {
		if _, err := l.EndSession(ctx, l.session.Load().(lockstore.SessionID)); err != nil {
			return lockstore.Grant{}, err
		}
		return lockstore.Grant{}, lockstore.ErrSessionLost
	}
	return l.Locks.Renew(ctx, key, token, ttl)
}

// A session that was lost is counted once, and no lock is asked for under it again.
//
// Clauses: K-4.4
// Mutation: take the session of the lease over whatever became of it in under.
func TestLostSessionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	w.create(t, account(1), 100)
	door := &slowDoor{Rail: w.rail, entered: make(chan struct{})}
	r := w.start(t, "a", func(o *executor.Options) {
		o.Locks, o.Rail, o.Workers, o.TTL = &losing{Locks: w.locks}, door, 1, losable
	})
	w.until(t, "POSTED 1")
	families, err := r.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if lost := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "lock_session_lost_total" && lost != 1 {
			t.Errorf("%v sessions lost, want one", lost)
		}
	}
	if n := r.count(t, "lost"); n != 1 {
		t.Errorf("%d payouts lost, want one", n)
	}
}

// No more accounts are worked on at once than there are workers.
//
// Mutation: start more workers in Run than Options say.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	const workers = 2
	for n := range 2 * workers {
		w.create(t, account(1+n), 100)
	}
	between, free := hook(w.payments), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(free) })
	defer letGo()
	var now, most atomic.Int64
	between.before = func(verb string) error {
		if verb != "submit" {
			return nil
		}
		n := now.Add(1)
		defer now.Add(-1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		<-free
		return nil
	}
	w.start(t, "a", func(o *executor.Options) { o.Payments, o.Workers = between, workers })
	eventually(t, "all workers are busy", func() bool { return now.Load() >= workers })
	<-time.After(300 * time.Millisecond) // another would have come by then
	letGo()
	w.until(t, "POSTED 4")
	if n := most.Load(); n != workers {
		t.Errorf("%d at once, want %d", n, workers)
	}
}
