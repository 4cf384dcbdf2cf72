package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// Rail is a client of rail-proxy. What its methods return is what paystore/rail
// returns for the same call: an outcome that is not known is no error, and stays
// unknown (K-5.3).
type Rail struct{ conn *conn }

// NewRail is a client of a rail-proxy. Its timeout must be longer than the forwarding
// deadline, or answers are given up that the proxy still hears. Nothing is sent yet.
// It returns lockstore.ErrInvalid for options that cannot be right.
func NewRail(opts Options) (*Rail, error) {
	c, err := opts.connect(workCircuit)
	if err != nil {
		return nil, err
	}
	return &Rail{c}, nil
}

// Close closes the connections that nobody uses.
func (r *Rail) Close() { r.conn.http.CloseIdleConnections() }

func (r *Rail) post(ctx context.Context, doing, path, payoutID string, token paystore.Token) (attempt payapi.Attempt, err error) {
	_, err = pay(ctx, r.conn, "rail-proxy", doing+payoutID, request{
		method: http.MethodPost, path: path, header: bearing(token), in: payapi.PayoutRef{PayoutID: payoutID}, out: &attempt,
	})
	return attempt, err
}

// Submit forwards the payout to the rail, once in its life.
func (r *Rail) Submit(ctx context.Context, payoutID string, token paystore.Token) (payapi.Attempt, error) {
	return r.post(ctx, "submit to the rail payout ", payapi.PathRailSubmit, payoutID, token)
}

// Ask asks the rail what became of a payout whose attempt is in flight or TIMEOUT.
func (r *Rail) Ask(ctx context.Context, payoutID string) (payapi.Attempt, error) {
	return r.post(ctx, "ask the rail about payout ", payapi.PathRailAsk, payoutID, 0)
}

// Adopt takes down an attempt that the rail has answered and paydb has forgotten.
func (r *Rail) Adopt(ctx context.Context, payoutID string, token paystore.Token) (payapi.Attempt, error) {
	return r.post(ctx, "take down the rail's answer to payout ", payapi.PathRailAdopt, payoutID, token)
}

// Lookup asks the rail what it knows of a payout, and records nothing.
func (r *Rail) Lookup(ctx context.Context, payoutID string) (answer payapi.Answer, err error) {
	_, err = pay(ctx, r.conn, "rail-proxy", "ask the rail about payout "+payoutID, request{
		method: http.MethodGet, path: payapi.PathRailLookup, query: url.Values(query{}.text("payout_id", payoutID)), out: &answer, safe: true,
	})
	return answer, err
}
