package posting

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// tries bounds how often a verb starts over from what it finds, always with the
// same token (K-4.3).
const tries = 4

// Claim claims a PENDING payout for the holder of token, or takes an open one over
// in the state it is in, which the holder goes on from (K-5.2). The same claim again
// is success. By convention holder is the owner of the lock's grant.
//
// It returns *FencedError (resource payout or floor) for a token that is not above
// every claim the payout ever had, *StateError for a payout that is final,
// *GateClosedError, *ClaimedError when the very token claimed it under another name,
// ErrInvalid and ErrNotFound.
func (s *Store) Claim(ctx context.Context, payoutID, holder string, token paystore.Token) (paystore.Payout, error) {
	id, err := validClaim(payoutID, token)
	if err = errors.Join(err, paystore.ValidHolder(holder)); err != nil {
		return paystore.Payout{}, err
	}
	doing := "claim payout " + id
	for range tries {
		st, err := s.look(ctx, doing, id)
		if err != nil {
			return paystore.Payout{}, err
		}
		if st.ClaimToken == token && st.floor < token && !st.State.Final() {
			if st.ClaimedBy != holder {
				return paystore.Payout{}, &paystore.ClaimedError{PayoutID: id, By: st.ClaimedBy, Token: token}
			}
			return st.Payout, nil // one's own lost answer
		}
		if err := st.unclaimable(token); err != nil {
			return paystore.Payout{}, err
		}
		var p paystore.Payout
		var changed bool
		if st.State == paystore.Pending {
			p, changed, err = s.step(ctx, doing, id, claimQuery, id, holder, token)
		} else {
			p, changed, err = s.step(ctx, doing, id, takeOverQuery, id, holder, token, st.State)
		}
		if err != nil || changed {
			return p, err
		}
	}
	return paystore.Payout{}, fmt.Errorf("%s: it moved on %d times; try again with the same token", doing, tries)
}

// unclaimable tells why the token cannot claim the payout; nil when it may try.
func (st standing) unclaimable(token paystore.Token) error {
	switch {
	case st.State.Final():
		return &paystore.StateError{PayoutID: st.PayoutID, Have: st.State, Want: paystore.OpenStates()}
	case st.floor >= token:
		return st.fenced(paystore.ResourceFloor, token, st.floor)
	case st.highestClaim >= token:
		return st.fenced(paystore.ResourcePayout, token, st.highestClaim)
	default:
		return nil
	}
}

// Release gives a CLAIMED payout back: PENDING again, its claim remembered by
// payout_claim alone. False means that it was not the token's any more, and nothing
// changed. A payout of the token's own that has left for the rail is a *StateError.
func (s *Store) Release(ctx context.Context, payoutID string, token paystore.Token) (released bool, err error) {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return false, err
	}
	doing := "release payout " + id
	_, released, err = s.step(ctx, doing, id, releaseQuery, id, token)
	if err != nil || released {
		return released, err
	}
	st, err := s.look(ctx, doing, id)
	if err != nil {
		return false, err
	}
	if st.ClaimToken == token && st.State != paystore.Claimed && !st.State.Final() {
		return false, &paystore.StateError{PayoutID: id, Have: st.State, Want: []paystore.State{paystore.Claimed}}
	}
	return false, nil
}

func validClaim(payoutID string, token paystore.Token) (id string, err error) {
	id, err = paystore.ParseID("payout", payoutID)
	return id, errors.Join(err, paystore.ValidToken(token))
}
