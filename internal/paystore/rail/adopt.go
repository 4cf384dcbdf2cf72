package rail

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Lookup asks the rail what it knows of a payout, whether or not paydb has an
// attempt, and records nothing: the evidence that a restored paydb asks for (K-7.9).
// It returns ErrNotFound when there is no payout, ErrInvalid, *EvidenceError when the
// rail has another payment under the payout's key, and the rail's error.
func (p *Proxy) Lookup(ctx context.Context, payoutID string) (Answer, error) {
	payoutID, err := paystore.ParseID("payout", payoutID)
	if err != nil {
		return Answer{}, err
	}
	doing := "ask the rail about payout " + payoutID
	paid, err := p.payout(ctx, doing, payoutID)
	if err != nil {
		return Answer{}, err
	}
	said, err := p.status(ctx, paid)
	if err != nil {
		return said, fmt.Errorf("%s: %w", doing, err)
	}
	return said, nil
}

// Adopt takes down an attempt that the rail has answered and paydb has forgotten:
// mark, attempt and answer in one transaction, and nothing is forwarded (K-7.9). It
// asks the rail itself, so that nobody's word stands in for its record. The payout is
// RAIL_SUBMITTED and claimed by token, as for Submit. An attempt that stands already
// is returned as it is.
//
// It returns *EvidenceError when the rail says neither ACKED nor REJECTED, the rail's
// error, and what Submit returns. After *UnknownOutcomeError the same call again
// tells, and does nothing twice.
func (p *Proxy) Adopt(ctx context.Context, payoutID string, token paystore.Token) (Attempt, error) {
	payoutID, err := paystore.ParseID("payout", payoutID)
	if err != nil {
		return Attempt{}, err
	}
	if err := paystore.ValidToken(token); err != nil {
		return Attempt{}, err
	}
	said, err := p.Lookup(ctx, payoutID)
	if err != nil {
		return Attempt{Said: said}, err
	}
	if !said.final() {
		return Attempt{Said: said}, &paystore.EvidenceError{
			Message: fmt.Sprintf("the rail's record of payout %s decides nothing: %q, %q", payoutID, said.Outcome, said.Text),
			Hint:    "only what the rail has paid or rejected is taken down without being forwarded",
		}
	}
	r, err := p.adopt(ctx, payoutID, token, said)
	switch {
	case err != nil:
		return Attempt{Said: said}, err
	case r.fenced != nil:
		return Attempt{Said: said}, p.refused(ctx, r)
	}
	return Attempt{Attempt: r.attempt, Repeated: !r.own, Said: said}, nil
}

// adopt writes mark, attempt and answer.
func (p *Proxy) adopt(ctx context.Context, payoutID string, token paystore.Token, said Answer) (reservation, error) {
	doing := "take down what the rail answered to payout " + payoutID
	id := uuid.NewString()
	var r reservation
	err := p.db.Transaction(ctx, doing, payoutID, func(tx pgx.Tx) (err error) {
		r = reservation{token: token, adopting: true}
		if r.payout, err = readPayout(ctx, tx, payoutID, token); err != nil {
			return err
		}
		if err := r.take(ctx, tx, id); err != nil || !r.own {
			return err
		}
		r.attempt, _, err = findAttempt(ctx, tx, answerQuery, id, said.Outcome, said.Reference)
		return err
	})
	if pgtx.HasCode(err, pgerrcode.CheckViolation) {
		err = p.notForRail(ctx, payoutID, err)
	}
	return r, err
}
