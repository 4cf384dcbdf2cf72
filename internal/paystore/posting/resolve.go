package posting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// ResolveParams settle a payout whose rail outcome is unknown (K-5.3).
type ResolveParams struct {
	PayoutID string
	// Token is that of the account's lock, and must hold the payout: Claim takes it
	// over first.
	Token    paystore.Token
	Source   paystore.Source
	Verdict  paystore.Verdict
	Evidence json.RawMessage // an object, not empty
	Operator string
	Reason   string
}

func (p ResolveParams) valid() (id string, err error) {
	id, err = validClaim(p.PayoutID, p.Token)
	if !slices.Contains(paystore.Sources(), p.Source) {
		err = errors.Join(err, fmt.Errorf("%w: source %q is none of %v", paystore.ErrInvalid, p.Source, paystore.Sources()))
	}
	if !slices.Contains(paystore.Verdicts(), p.Verdict) {
		err = errors.Join(err, fmt.Errorf("%w: verdict %q is none of %v", paystore.ErrInvalid, p.Verdict, paystore.Verdicts()))
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(p.Evidence, &object) != nil || len(object) == 0 || bytes.Contains(p.Evidence, []byte(`\u0000`)) {
		err = errors.Join(err, fmt.Errorf(`%w: evidence is not a JSON object that says something; give one such as {"call":"rail support, ticket 4711"}`, paystore.ErrInvalid))
	}
	return id, errors.Join(err, paystore.ValidOperator(p.Operator), paystore.ValidReason(p.Reason))
}

// Resolve moves a RAIL_AMBIGUOUS payout by evidence, and keeps the evidence, in one
// transaction: PAID to RAIL_ACKED, REJECTED and NOT_FOUND to FAILED, UNDETERMINED to
// ABANDONED. A RAIL_SUBMITTED one goes the same ways, but for ABANDONED, where nothing
// else leads on: it has no attempt, or one that the rail REJECTED while the verdict PAID
// stands. While the attempt is in flight its forwarding deadline has not been
// seen to pass, and *EvidenceError is returned (K-4.11); also when another verdict
// or the attempt itself says otherwise. The same resolution again is success. See
// Submit for the rest.
func (s *Store) Resolve(ctx context.Context, p ResolveParams) (paystore.Payout, error) {
	id, err := p.valid()
	if err != nil {
		return paystore.Payout{}, err
	}
	doing := "resolve payout " + id
	to := map[paystore.Verdict]paystore.State{
		paystore.VerdictPaid: paystore.RailAcked, paystore.VerdictRejected: paystore.Failed,
		paystore.VerdictNotFound: paystore.Failed, paystore.VerdictUndetermined: paystore.Abandoned,
	}[p.Verdict]
	st, err := s.look(ctx, doing, id)
	if err != nil {
		return paystore.Payout{}, err
	}
	if (st.State == paystore.RailAmbiguous || st.State == paystore.RailSubmitted) && st.attempted && st.outcome == "" {
		return paystore.Payout{}, inFlight(id)
	}
	from := paystore.RailAmbiguous
	if st.State == paystore.RailSubmitted && to != paystore.Abandoned && (!st.attempted || st.outcome == paystore.OutcomeRejected) {
		from = paystore.RailSubmitted
	}
	payout, err := s.record(ctx, doing, id, moveQuery, []any{id, p.Token, from, to}, p)
	if errors.Is(err, errNoRow) {
		return s.unmoved(ctx, doing, id, p.Token, from, to)
	}
	return payout, err
}

// GiveUp fails a payout before the rail was asked, for good: a PENDING one when
// token is 0, else the CLAIMED one that token holds. Who did it and why is kept with
// the payout's resolutions. A payout that is FAILED already is success. It returns
// *ClaimedError for a payout claimed meanwhile, and otherwise what Submit does.
func (s *Store) GiveUp(ctx context.Context, payoutID string, token paystore.Token, operator, reason string) (paystore.Payout, error) {
	id, err := paystore.ParseID("payout", payoutID)
	if token != 0 {
		err = errors.Join(err, paystore.ValidToken(token))
	}
	if err = errors.Join(err, paystore.ValidOperator(operator), paystore.ValidReason(reason)); err != nil {
		return paystore.Payout{}, err
	}
	doing := "give up payout " + id
	from, sql, args := paystore.Pending, giveUpQuery, []any{id}
	if token != 0 {
		from, sql, args = paystore.Claimed, moveQuery, []any{id, token, paystore.Claimed, paystore.Failed}
	}
	evidence, err := json.Marshal(map[string]any{"action": paystore.GiveUp, "from": from})
	if err != nil {
		return paystore.Payout{}, fmt.Errorf("%s: %w", doing, err)
	}
	payout, err := s.record(ctx, doing, id, sql, args, ResolveParams{
		Source: paystore.SourceOperator, Verdict: paystore.VerdictUndetermined, Evidence: evidence, Operator: operator, Reason: reason,
	})
	if errors.Is(err, errNoRow) {
		return s.notGivenUp(ctx, doing, id, token, from)
	}
	return payout, err
}

func (s *Store) notGivenUp(ctx context.Context, doing, id string, token paystore.Token, from paystore.State) (paystore.Payout, error) {
	if token != 0 {
		return s.unmoved(ctx, doing, id, token, from, paystore.Failed)
	}
	st, err := s.look(ctx, doing, id)
	switch {
	case err != nil:
		return paystore.Payout{}, err
	case st.State == paystore.Failed:
		return st.Payout, nil
	case st.State == paystore.Claimed:
		return paystore.Payout{}, &paystore.ClaimedError{PayoutID: id, By: st.ClaimedBy, Token: st.ClaimToken}
	default:
		return paystore.Payout{}, &paystore.StateError{PayoutID: id, Have: st.State, Want: []paystore.State{from}}
	}
}

// record keeps why and moves the payout, in the order that paydb asks for: the
// payout's row is locked first, or two that record and move it would wait for each
// other, and the evidence stands before it is looked for. Without a row to move
// there is nothing to record.
func (s *Store) record(ctx context.Context, doing, id, move string, args []any, p ResolveParams) (payout paystore.Payout, err error) {
	err = s.db.Transaction(ctx, doing, id, func(tx pgx.Tx) error {
		found, err := tx.Exec(ctx, lockPayoutQuery, id)
		if err != nil {
			return err
		}
		if found.RowsAffected() == 0 {
			return paystore.ErrNotFound
		}
		if _, err := tx.Exec(ctx, recordResolutionQuery, id, p.Source, p.Verdict, p.Evidence, p.Operator, p.Reason); err != nil {
			return err
		}
		return oneRow(errNoRow, paystore.ScanPayout(tx.QueryRow(ctx, move, args...), &payout))
	})
	if err != nil {
		return paystore.Payout{}, refusal(err)
	}
	return payout, nil
}
