package fault_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// orderVariable makes the test binary a worker: a process of its own.
const orderVariable = "DLOCKCTL_FAULT_TEST_ORDER"

// order is what a worker is told to do.
type order struct {
	Owner    string `json:"owner"`
	LockDSN  string `json:"lock_dsn"`
	MoneyDSN string `json:"money_dsn"`
	ProxyDSN string `json:"proxy_dsn"`
	RailURL  string `json:"rail_url"`

	PayoutID  string        `json:"payout_id"`
	AccountID string        `json:"account_id"`
	Lease     time.Duration `json:"lease"`
	// FencingDisabled is both switches of K-4.5.
	FencingDisabled bool `json:"fencing_disabled"`
	// PauseBefore is the step before which the worker waits to be told to go on.
	PauseBefore step `json:"pause_before"`
	// Next is another payout of the account, which the worker turns to afterwards
	// without asking for the lock again; may be empty.
	Next string `json:"next"`
}

// step is one thing a worker does.
type step string

// The steps, in their order.
const (
	stepAcquire step = "acquire"
	stepClaim   step = "claim"
	stepFunds   step = "check the funds"
	stepSubmit  step = "submit"
	stepRail    step = "submit to the rail"
	stepSend    step = "send to the rail"
	stepSettle  step = "settle"
	stepPost    step = "post"
	stepNext    step = "claim the next"
	stepAccount step = "check the funds of the next"
	stepRelease step = "release"
)

// report is how a step ended.
type report struct {
	Step  step            `json:"step"`
	Token lockstore.Token `json:"token"`
	// Paused: the step is about to begin.
	Paused bool `json:"paused,omitempty"`
	// Fenced names the resource that refused the token.
	Fenced paystore.Resource `json:"fenced,omitempty"`
	// Stands is what the payout or its attempt is after the step.
	Stands string `json:"stands,omitempty"`
	Error  string `json:"error,omitempty"`
}

// worker pays one payout at a time, as payout-executor does, through the stores that
// the services stand on.
type worker struct {
	order
	locks lockstore.Store
	money *posting.Store
	proxy *rail.Proxy
	token lockstore.Token
	// tell shows a report, and pause waits to be told to go on.
	tell  func(report)
	pause func()
}

// pay goes on after a refusal as a worker does that has noticed nothing: each
// enforcement point has to refuse it by itself.
func (w *worker) pay(ctx context.Context) {
	token := func() paystore.Token { return paystore.Token(w.token) }
	w.do(stepAcquire, func() (string, error) { return w.acquire(ctx) })
	w.do(stepClaim, func() (string, error) {
		p, err := w.money.Claim(ctx, w.PayoutID, w.Owner, token())
		if p.State != paystore.Claimed { // taken over: the funds were looked at before
			return string(p.State), err
		}
		w.do(stepFunds, func() (string, error) { return "", w.money.CheckFunds(ctx, w.PayoutID, token()) })
		w.do(stepSubmit, func() (string, error) {
			p, err := w.money.Submit(ctx, w.PayoutID, token())
			return string(p.State), err
		})
		return string(p.State), err
	})
	w.do(stepRail, func() (string, error) {
		a, err := w.proxy.Submit(ctx, w.PayoutID, token())
		return string(a.Outcome), err
	})
	w.do(stepSettle, func() (string, error) {
		p, err := w.money.Settle(ctx, w.PayoutID, token())
		return string(p.State), err
	})
	w.do(stepPost, func() (string, error) {
		p, err := w.money.Post(ctx, w.PayoutID, token())
		if p.AlreadyPosted {
			return "posted before, under " + p.Token.String(), err
		}
		return "posted under " + p.Token.String(), err
	})
	if w.Next != "" {
		w.do(stepNext, func() (string, error) {
			p, err := w.money.Claim(ctx, w.Next, w.Owner, token())
			return string(p.State), err
		})
		w.do(stepAccount, func() (string, error) { return "", w.money.CheckFunds(ctx, w.Next, token()) })
	}
	w.do(stepRelease, func() (string, error) {
		released, err := w.locks.Release(ctx, lockKey(w.AccountID), w.token)
		return fmt.Sprintf("stale %t", released.Stale), err
	})
}

func (w *worker) acquire(ctx context.Context) (string, error) {
	session, err := w.locks.CreateSession(ctx, w.Owner, time.Hour)
	if err != nil {
		return "", err
	}
	grant, err := w.locks.Acquire(ctx, lockstore.AcquireParams{Key: lockKey(w.AccountID), Owner: w.Owner, Session: session.ID, TTL: w.Lease})
	w.token = grant.Token
	return "", err
}

// do takes a step and tells how it ended.
func (w *worker) do(s step, take func() (string, error)) {
	w.before(s)
	stands, err := take()
	r := report{Step: s, Token: w.token, Stands: stands}
	if fenced, ok := errors.AsType[*paystore.FencedError](err); ok {
		r.Fenced = fenced.Resource
	}
	if err != nil {
		r.Stands, r.Error = "", err.Error()
	}
	w.tell(r)
}

func (w *worker) before(s step) {
	if s == w.PauseBefore {
		w.tell(report{Step: s, Token: w.token, Paused: true})
		w.pause()
	}
}

// lockKey is the lock of an account's payouts (K-4.2).
func lockKey(accountID string) string { return "account:" + accountID }

// work is a worker's process: it reads its order, and writes a report a line.
func work(ctx context.Context, text string, in io.Reader, out io.Writer) int {
	encoder, orders := json.NewEncoder(out), bufio.NewReader(in)
	fail := func(err error) int {
		_ = encoder.Encode(report{Error: err.Error()})
		return 1
	}
	w := &worker{
		tell:  func(r report) { _ = encoder.Encode(r) },
		pause: func() { _, _ = orders.ReadString('\n') },
	}
	if err := json.Unmarshal([]byte(text), &w.order); err != nil {
		return fail(err)
	}
	leave, err := w.arrive(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()
	w.pay(ctx)
	return 0
}

// arrive opens the three stores, each under its own role.
func (w *worker) arrive(ctx context.Context) (leave func(), err error) {
	config, err := pgx.ParseConfig(w.LockDSN)
	if err != nil {
		return nil, err
	}
	if w.locks, err = postgres.Open(ctx, postgres.Options{Config: config, Purpose: postgres.Granting, MaxConns: 2}); err != nil {
		return nil, err
	}
	money, err := openPay(ctx, w.MoneyDSN)
	if err != nil {
		return nil, err
	}
	attempts, err := openPay(ctx, w.ProxyDSN)
	if err != nil {
		return nil, err
	}
	w.money = posting.New(money, posting.Options{FencingDisabled: w.FencingDisabled})
	client := railClient{url: w.RailURL, before: func() { w.before(stepSend) }}
	w.proxy = rail.New(attempts, client, rail.Options{FencingDisabled: w.FencingDisabled})
	return func() { w.proxy.Close(); attempts.Close(); money.Close(); w.locks.Close() }, nil
}

func openPay(ctx context.Context, dsn string) (*paystore.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	return paystore.Open(ctx, paystore.Options{Config: config, Purpose: paystore.Changing, MaxConns: 2})
}
