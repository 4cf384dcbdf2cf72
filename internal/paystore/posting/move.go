package posting

import (
	"context"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// CheckFunds looks, before the rail is asked, whether the payout can be posted
// under token: funds, currency and the account's fence (K-4.9, K-4.2). Nothing is
// reserved; it makes a rejection after the acknowledgement the rare exception.
//
// It returns *RejectedError, upon which the caller calls Reject, *FencedError
// (account, payout or floor), *ClaimedError and *StateError unless CLAIMED.
func (s *Store) CheckFunds(ctx context.Context, payoutID string, token paystore.Token) error {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return err
	}
	st, err := s.look(ctx, "check the funds of payout "+id, id)
	if err != nil {
		return err
	}
	if err := st.claimedOtherwise(token, paystore.Claimed); err != nil {
		return err
	}
	switch {
	case st.State != paystore.Claimed:
		return &paystore.StateError{PayoutID: id, Have: st.State, Want: []paystore.State{paystore.Claimed}}
	case st.fence >= token:
		return st.fenced(paystore.ResourceAccount, token, st.fence)
	default:
		return st.rejected()
	}
}

// Submit moves a payout to the rail: CLAIMED to RAIL_SUBMITTED, before the attempt
// is made (K-5.3).
//
// Submit, Settle and Reject return *FencedError when a higher token has taken the
// payout over, *ClaimedError when a lower one holds it, *StateError when it has no
// such arrow, and *EvidenceError when the rail's attempt says otherwise. One's own
// move again is success.
func (s *Store) Submit(ctx context.Context, payoutID string, token paystore.Token) (paystore.Payout, error) {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return paystore.Payout{}, err
	}
	doing := "submit payout " + id
	p, changed, err := s.step(ctx, doing, id, submitQuery, id, token)
	if err != nil || changed {
		return p, err
	}
	return s.unmoved(ctx, doing, id, token, paystore.Claimed, paystore.RailSubmitted)
}

// Settle moves a payout as its rail attempt says: RAIL_SUBMITTED to RAIL_ACKED,
// FAILED or RAIL_AMBIGUOUS. An attempt that is in flight, or none, is an
// *EvidenceError: nothing is guessed. See Submit.
func (s *Store) Settle(ctx context.Context, payoutID string, token paystore.Token) (paystore.Payout, error) {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return paystore.Payout{}, err
	}
	doing := "settle payout " + id
	st, err := s.look(ctx, doing, id)
	if err != nil {
		return paystore.Payout{}, err
	}
	if err := st.claimedOtherwise(token, paystore.RailSubmitted); err != nil {
		return paystore.Payout{}, err
	}
	to, said := map[paystore.Outcome]paystore.State{
		paystore.OutcomeAcked: paystore.RailAcked, paystore.OutcomeRejected: paystore.Failed, paystore.OutcomeTimeout: paystore.RailAmbiguous,
	}[st.outcome]
	switch {
	case said:
		return s.move(ctx, doing, id, token, paystore.RailSubmitted, to)
	case st.State != paystore.RailSubmitted:
		return paystore.Payout{}, &paystore.StateError{PayoutID: id, Have: st.State, Want: []paystore.State{paystore.RailSubmitted}}
	case st.attempted:
		return paystore.Payout{}, &paystore.EvidenceError{
			Message: fmt.Sprintf("the rail's answer to payout %s is not known: its attempt is in flight", id), Hint: "wait for it, or ask the rail: dlockctl payout resolve " + id + " --from-rail --reason TEXT",
		}
	default:
		return paystore.Payout{}, &paystore.EvidenceError{
			Message: fmt.Sprintf("payout %s has no attempt at the rail", id), Hint: "submit it to the rail first: a worker does, or dlockctl payout resolve " + id + " --from-rail --reason TEXT",
		}
	}
}

// Reject fails a payout that cannot be paid: CLAIMED before the rail was asked,
// RAIL_SUBMITTED when the rail refused it, RAIL_ACKED when the account cannot pay
// any more, which leaves money out and no debit (K-5.5). See Submit.
func (s *Store) Reject(ctx context.Context, payoutID string, token paystore.Token) (paystore.Payout, error) {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return paystore.Payout{}, err
	}
	doing := "reject payout " + id
	st, err := s.look(ctx, doing, id)
	if err != nil {
		return paystore.Payout{}, err
	}
	if err := st.claimedOtherwise(token, rejectable()...); err != nil {
		return paystore.Payout{}, err
	}
	switch st.State {
	case paystore.Claimed, paystore.RailSubmitted, paystore.RailAcked:
		return s.move(ctx, doing, id, token, st.State, paystore.Failed)
	case paystore.Failed:
		return st.Payout, nil
	default:
		return paystore.Payout{}, &paystore.StateError{PayoutID: id, Have: st.State, Want: rejectable()}
	}
}

func rejectable() []paystore.State {
	return []paystore.State{paystore.Claimed, paystore.RailSubmitted, paystore.RailAcked}
}

// move is one's own work: the claim is the token's and is kept.
func (s *Store) move(ctx context.Context, doing, id string, token paystore.Token, from, to paystore.State) (paystore.Payout, error) {
	p, changed, err := s.step(ctx, doing, id, moveQuery, id, token, from, to)
	if err != nil || changed {
		return p, err
	}
	return s.unmoved(ctx, doing, id, token, from, to)
}

// unmoved tells why a move changed no row (docs/payouts.md).
func (s *Store) unmoved(ctx context.Context, doing, id string, token paystore.Token, from, to paystore.State) (paystore.Payout, error) {
	st, err := s.look(ctx, doing, id)
	if err != nil {
		return paystore.Payout{}, err
	}
	if st.State == to && st.ClaimToken == token {
		return st.Payout, nil // one's own lost answer
	}
	if err := st.claimedOtherwise(token, from); err != nil {
		return paystore.Payout{}, err
	}
	return paystore.Payout{}, &paystore.StateError{PayoutID: id, Have: st.State, Want: []paystore.State{from}}
}
