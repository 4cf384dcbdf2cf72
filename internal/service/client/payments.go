package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// Payments is a client of payment-resource. What its methods return is what
// paystore/posting returns for the same call; nothing that moves a payout is repeated
// by itself, and everything may be, with the same token (K-4.3).
type Payments struct{ conn *conn }

// NewPayments is a client of a payment-resource. Nothing is sent yet. It returns
// lockstore.ErrInvalid for options that cannot be right.
func NewPayments(opts Options) (*Payments, error) {
	c, err := opts.connect(workCircuit)
	if err != nil {
		return nil, err
	}
	return &Payments{c}, nil
}

// Close closes the connections that nobody uses.
func (p *Payments) Close() { p.conn.http.CloseIdleConnections() }

// pay sends a request of a payment service, and turns what comes back into the store's
// error.
func pay(ctx context.Context, c *conn, service, doing string, r request) (status int, err error) {
	status, err = c.do(ctx, r)
	if err == nil {
		return status, nil
	}
	if lost, ok := errors.AsType[*lostError](err); ok {
		err := fmt.Errorf("%s at %s: %w", service, c.host(), lost.err)
		if lost.sent && r.method != http.MethodGet {
			return 0, &paystore.UnknownOutcomeError{Doing: doing, Err: err}
		}
		return 0, &paystore.UnreachableError{Doing: doing, Err: err}
	}
	if p, ok := problem.From(err); ok {
		return 0, payapi.Error(p)
	}
	return 0, fmt.Errorf("%s: %w", doing, err)
}

func (p *Payments) get(ctx context.Context, doing, path string, q query, out any) error {
	_, err := pay(ctx, p.conn, "payment-resource", doing, request{method: http.MethodGet, path: path, query: url.Values(q), out: out, safe: true})
	return err
}

func (p *Payments) post(ctx context.Context, doing, path string, token paystore.Token, in, out any) error {
	_, err := pay(ctx, p.conn, "payment-resource", doing, request{method: http.MethodPost, path: path, header: bearing(token), in: in, out: out})
	return err
}

// bearing is the header that carries a fencing token; none for 0.
func bearing(token paystore.Token) http.Header {
	if token == 0 {
		return nil
	}
	return http.Header{payapi.TokenHeader: {token.String()}}
}

// Create makes a PENDING payout, or returns the one that the same idempotency key made
// before, and false.
func (p *Payments) Create(ctx context.Context, create payapi.CreatePayout) (payout payapi.Payout, created bool, err error) {
	status, err := pay(ctx, p.conn, "payment-resource", fmt.Sprintf("create a payout with idempotency key %q", create.IdempotencyKey),
		request{method: http.MethodPost, path: payapi.PathPayouts, in: create, out: &payout, safe: true})
	return payout, status == http.StatusCreated, err
}

// PayoutFilter narrows Payouts.
type PayoutFilter struct {
	// AccountID is the payer's; empty is any.
	AccountID string
	// States lists payouts in one of these; empty is any.
	States []paystore.State
	// OldestFirst turns the order round.
	OldestFirst bool
	// After is the page to go on from: the next of the one before.
	After string
	// Limit is the most of a page; 0 is the service's own.
	Limit int
}

// Payouts lists a page of payouts, newest first unless the filter says otherwise.
func (p *Payments) Payouts(ctx context.Context, filter PayoutFilter) (page payapi.PayoutList, err error) {
	states := make([]string, len(filter.States))
	for i, s := range filter.States {
		states[i] = string(s)
	}
	q := query{}.text("state", strings.Join(states, ",")).text("account_id", filter.AccountID).text("after", filter.After).limit(filter.Limit)
	if filter.OldestFirst {
		q = q.text("order", "oldest")
	}
	err = p.get(ctx, "list payouts", payapi.PathPayouts, q, &page)
	return page, err
}

// Unsettled lists the payouts that the rail's own record has to settle.
func (p *Payments) Unsettled(ctx context.Context) ([]payapi.UnsettledPayout, error) {
	var answer payapi.UnsettledList
	err := p.get(ctx, "list the payouts that the rail has to settle", payapi.PathUnsettled, nil, &answer)
	return answer.Payouts, err
}

// Open lists the account's claimed payouts that are not final, oldest first: its
// holder finishes them first (K-5.2).
func (p *Payments) Open(ctx context.Context, accountID string) ([]payapi.Payout, error) {
	var answer payapi.PayoutList
	err := p.get(ctx, "list the open payouts of account "+accountID, payapi.PathOpen, query{}.text("account_id", accountID), &answer)
	return answer.Payouts, err
}

// Claim claims a PENDING payout for holder, or takes an open one over in the state it
// is in.
func (p *Payments) Claim(ctx context.Context, payoutID, holder string, token paystore.Token) (payout payapi.Payout, err error) {
	err = p.post(ctx, "claim payout "+payoutID, payapi.PathClaim, token, payapi.ClaimPayout{PayoutID: payoutID, Holder: holder}, &payout)
	return payout, err
}

// Release gives a CLAIMED payout back; false means that it was not the token's any
// more.
func (p *Payments) Release(ctx context.Context, payoutID string, token paystore.Token) (released bool, err error) {
	var answer payapi.Released
	err = p.post(ctx, "release payout "+payoutID, payapi.PathRelease, token, payapi.PayoutRef{PayoutID: payoutID}, &answer)
	return answer.Released, err
}

// CheckFunds looks whether the payout can be posted under token.
func (p *Payments) CheckFunds(ctx context.Context, payoutID string, token paystore.Token) error {
	return p.post(ctx, "check the funds of payout "+payoutID, payapi.PathCheckFunds, token, payapi.PayoutRef{PayoutID: payoutID}, nil)
}

// Submit moves a payout to the rail, before rail-proxy is asked.
func (p *Payments) Submit(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error) {
	return p.move(ctx, "submit", payapi.PathSubmit, payoutID, token)
}

// Settle moves a payout as its rail attempt says.
func (p *Payments) Settle(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error) {
	return p.move(ctx, "settle", payapi.PathSettle, payoutID, token)
}

// Reject fails a payout that cannot be paid.
func (p *Payments) Reject(ctx context.Context, payoutID string, token paystore.Token) (payapi.Payout, error) {
	return p.move(ctx, "reject", payapi.PathReject, payoutID, token)
}

func (p *Payments) move(ctx context.Context, verb, path, payoutID string, token paystore.Token) (payout payapi.Payout, err error) {
	err = p.post(ctx, verb+" payout "+payoutID, path, token, payapi.PayoutRef{PayoutID: payoutID}, &payout)
	return payout, err
}

// Post enters a payout that the rail has acknowledged into the ledger.
func (p *Payments) Post(ctx context.Context, payoutID string, token paystore.Token) (posting payapi.Posting, err error) {
	err = p.post(ctx, "post payout "+payoutID, payapi.PathPost, token, payapi.PayoutRef{PayoutID: payoutID}, &posting)
	return posting, err
}

// Resolve moves a RAIL_AMBIGUOUS payout by evidence, and keeps the evidence.
func (p *Payments) Resolve(ctx context.Context, by payapi.SettleByEvidence, token paystore.Token) (payout payapi.Payout, err error) {
	err = p.post(ctx, "resolve payout "+by.PayoutID, payapi.PathResolve, token, by, &payout)
	return payout, err
}
