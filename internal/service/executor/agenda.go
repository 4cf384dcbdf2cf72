package executor

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

const (
	// pageSize is how many payouts of a kind one look takes in.
	pageSize = 200
	// firstRest and longestRest bound how long an account, or a payout that is not
	// decided, is left alone.
	firstRest, longestRest = 250 * time.Millisecond, time.Minute
	// leastRest and busyRest bound the rest of an account that another holds: it may let
	// go at any moment. A lease that is all but over is no reason to ask all the time: in
	// etcd it stands at its last millisecond until the cluster has ended it.
	leastRest, busyRest = 100 * time.Millisecond, time.Second
)

// agenda knows what is worked on here, and what is left alone for a while.
type agenda struct {
	mu   sync.Mutex
	busy map[string]bool
	// rests are of accounts and of payouts, which share no names.
	rests map[string]*rest
	// page is where the next look at what is pending goes on: an account with thousands
	// of payouts hides no other for long.
	page string
}

// rest is how long something is left alone: longer each time.
type rest struct {
	until  time.Time
	pauses *backoff.ExponentialBackOff
}

func newAgenda() *agenda { return &agenda{busy: map[string]bool{}, rests: map[string]*rest{}} }

// due tells that an account or a payout is not left alone at present.
func (a *agenda) due(id string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, resting := a.rests[id]
	return !resting || !now.Before(r.until)
}

// take marks an account as worked on; false means that it is already, or rests.
func (a *agenda) take(account string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, resting := a.rests[account]; a.busy[account] || resting && now.Before(r.until) {
		return false
	}
	a.busy[account] = true
	return true
}

func (a *agenda) done(account string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, account)
}

// leave leaves an account or a payout alone, longer each time, and at most longest.
func (a *agenda) leave(id string, longest time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, known := a.rests[id]
	if !known {
		r = &rest{pauses: &backoff.ExponentialBackOff{InitialInterval: firstRest, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: longestRest}}
		r.pauses.Reset()
		a.rests[id] = r
	}
	r.until = now.Add(min(r.pauses.NextBackOff(), longest))
}

// welcome forgets that something was left alone.
func (a *agenda) welcome(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.rests, id)
}

// forget drops what has not been left alone for long: it was finished elsewhere.
func (a *agenda) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.rests {
		if now.Sub(r.until) > 2*longestRest {
			delete(a.rests, id)
		}
	}
}

// find hands accounts that have work to the workers, until ctx ends. Each account once
// in a round, in an order of this executor's own, so that none waits behind a
// busy one and several executors do not all begin with the same.
func (e *Executor) find(ctx context.Context, accounts chan<- string) {
	idle := &backoff.ExponentialBackOff{InitialInterval: 10 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: e.opts.Idle}
	idle.Reset()
	for ctx.Err() == nil {
		found, err := e.look(ctx)
		e.heard(ctx, PaymentResource, err)
		handed := 0
		for _, account := range found {
			if !e.agenda.take(account, time.Now()) {
				continue
			}
			select {
			case <-ctx.Done():
				e.agenda.done(account)
				return
			case accounts <- account:
				handed++
			}
		}
		e.agenda.forget(time.Now())
		if handed > 0 {
			idle.Reset()
		}
		if lockstore.Pause(ctx, idle.NextBackOff()) != nil {
			return
		}
	}
}

// look returns the accounts that have something to be done.
func (e *Executor) look(ctx context.Context) ([]string, error) {
	var payouts []payapi.Payout
	unsettled, err := e.opts.Payments.Unsettled(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range unsettled {
		if !u.HeldBack { // paydb's gate lets nobody claim those (K-7.9)
			payouts = append(payouts, u.Payout)
		}
	}
	begun, err := e.opts.Payments.Payouts(ctx, client.PayoutFilter{
		States: []paystore.State{paystore.Claimed, paystore.RailSubmitted, paystore.RailAcked}, OldestFirst: true, Limit: pageSize,
	})
	if err != nil {
		return nil, err
	}
	pending, err := e.opts.Payments.Payouts(ctx, client.PayoutFilter{
		States: []paystore.State{paystore.Pending}, OldestFirst: true, Limit: pageSize, After: e.agenda.page,
	})
	if err != nil {
		return nil, err
	}
	e.agenda.page = pending.Next
	payouts = slices.Concat(payouts, begun.Payouts, pending.Payouts)
	now := time.Now()
	seen := map[string]bool{}
	var accounts []string
	for _, p := range payouts {
		if !seen[p.AccountID] && e.agenda.due(p.PayoutID, now) {
			seen[p.AccountID] = true
			accounts = append(accounts, p.AccountID)
		}
	}
	rand.Shuffle(len(accounts), func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] }) //nolint:gosec // G404: nobody gains by guessing the order
	return accounts, nil
}
