package posting

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Attest keeps what the rail's own record says of a payout that is not final, and
// moves nothing. It is what a restored paydb asks for before the payout may be
// claimed again (K-7.9), so Token does not hold the payout yet: it is that of the
// account's lock, and above every claim. PAID and REJECTED are then walked to their
// end, NOT_FOUND frees the payout unless an attempt holds its slot, UNDETERMINED frees
// nothing.
//
// It returns *StateError for a final payout, *FencedError (floor or payout),
// *EvidenceError for NOT_FOUND while the attempt is in flight (K-4.11) and for
// whatever speaks against a verdict PAID that stands, ErrInvalid and ErrNotFound.
func (s *Store) Attest(ctx context.Context, p ResolveParams) (paystore.Payout, error) {
	id, err := p.valid()
	if err != nil {
		return paystore.Payout{}, err
	}
	doing := "keep what the rail says of payout " + id
	st, err := s.look(ctx, doing, id)
	if err == nil {
		err = st.unattestable(p)
	}
	if err != nil {
		return paystore.Payout{}, err
	}
	var payout paystore.Payout
	err = s.db.Transaction(ctx, doing, id, func(tx pgx.Tx) error {
		var clearing string
		if err := paystore.ScanPayout(tx.QueryRow(ctx, lockPayoutQuery, id), &payout, &clearing); err != nil {
			return err
		}
		// Somebody may have been at it since the look.
		now := standing{Payout: payout, floor: st.floor, attempted: st.attempted, outcome: st.outcome}
		if err := now.unattestable(p); err != nil {
			return err
		}
		var verdict paystore.Verdict
		if err := tx.QueryRow(ctx, verdictQuery, id).Scan(&verdict); err != nil {
			return err
		}
		if verdict == paystore.VerdictPaid && p.Verdict != verdict {
			return &paystore.EvidenceError{
				Message: fmt.Sprintf("that the rail has paid payout %s is on record, and %s speaks against it", id, p.Verdict),
				Hint:    "nothing was recorded; look at both: dlockctl payout show " + id,
			}
		}
		_, err := tx.Exec(ctx, recordResolutionQuery, id, p.Source, p.Verdict, p.Evidence, p.Operator, p.Reason)
		return err
	})
	if err != nil {
		return paystore.Payout{}, err
	}
	return payout, nil
}

// unattestable tells why nothing is recorded of the payout; nil when it may be.
func (st standing) unattestable(p ResolveParams) error {
	switch {
	case st.State.Final():
		return &paystore.StateError{PayoutID: st.PayoutID, Have: st.State, Want: paystore.OpenStates()}
	case st.floor >= p.Token:
		return st.fenced(paystore.ResourceFloor, p.Token, st.floor)
	case max(st.highestClaim, st.ClaimToken) > p.Token:
		return st.fenced(paystore.ResourcePayout, p.Token, max(st.highestClaim, st.ClaimToken))
	case p.Verdict == paystore.VerdictNotFound && st.attempted && st.outcome == "":
		return inFlight(st.PayoutID)
	default:
		return nil
	}
}

// inFlight is why what the rail does not know yet proves nothing (K-4.11).
func inFlight(id string) error {
	return &paystore.EvidenceError{
		Message: fmt.Sprintf("payout %s may still leave for the rail: its attempt is in flight", id),
		Hint:    "ask the rail, which gives the attempt up once its deadline has passed: dlockctl payout resolve " + id + " --from-rail --reason TEXT",
	}
}
