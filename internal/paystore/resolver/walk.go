package resolver

import (
	"context"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// walk takes the payout over and moves it arrow by arrow, whose evidence is kept
// already. forgotten tells that paydb has no attempt of what the rail has answered.
func (r *Resolver) walk(ctx context.Context, result Result, verdict paystore.Verdict, token paystore.Token, forgotten bool) (Result, error) {
	p, err := r.posting.Claim(ctx, result.PayoutID, r.opts.Operator, token)
	for err == nil {
		result.State = p.State
		switch p.State {
		case paystore.Claimed:
			p, err = r.posting.Submit(ctx, p.PayoutID, token)
		case paystore.RailSubmitted:
			if forgotten {
				if _, err = r.proxy.Adopt(ctx, p.PayoutID, token); err != nil {
					return result, err
				}
			}
			p, err = r.posting.Settle(ctx, p.PayoutID, token)
		case paystore.RailAmbiguous:
			p, err = r.resolve(ctx, result, verdict, token)
		case paystore.RailAcked, paystore.Posted:
			result.Fate = Acked
			return result, nil
		case paystore.Failed, paystore.Abandoned:
			result.Fate = Failed
			return result, nil
		case paystore.Pending: // a claim leaves none
			return result, &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: []paystore.State{paystore.Claimed}}
		}
	}
	return result, err
}

// resolve moves a RAIL_AMBIGUOUS payout; its evidence is on record, and is not kept
// twice.
func (r *Resolver) resolve(ctx context.Context, result Result, verdict paystore.Verdict, token paystore.Token) (paystore.Payout, error) {
	params, err := r.params(result, verdict, token)
	if err != nil {
		return paystore.Payout{}, err
	}
	return r.posting.Resolve(ctx, params)
}
