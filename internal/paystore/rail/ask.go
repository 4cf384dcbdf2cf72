package rail

import (
	"context"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Ask asks the rail what became of a payout whose attempt is in flight or TIMEOUT,
// and records what it hears: ACKED or REJECTED. An attempt in flight whose
// forwarding deadline has passed is TIMEOUT first, for the process that forwarded it
// is gone (K-4.11). What the rail does not know, or has not decided, stays unknown;
// Said tells which, and NotFound is evidence beside TIMEOUT only: before, the request
// may still be on its way. An attempt that is settled is returned as it is, and nobody is
// asked.
//
// It returns ErrNotFound when there is no payout or it has no attempt, ErrInvalid,
// the rail's error beside the attempt as it stands, *EvidenceError when the rail has
// another payment under the key, and *UnknownOutcomeError when
// paydb did not take the answer down.
func (p *Proxy) Ask(ctx context.Context, payoutID string) (Attempt, error) {
	payoutID, err := paystore.ParseID("payout", payoutID)
	if err != nil {
		return Attempt{}, err
	}
	doing := "ask the rail about payout " + payoutID
	paid, standing, err := p.overdue(ctx, doing, payoutID)
	if err != nil {
		return Attempt{}, err
	}
	if standing.Outcome != "" && standing.Outcome != paystore.OutcomeTimeout {
		return Attempt{Attempt: standing, Repeated: true}, nil
	}
	said, err := p.status(ctx, paid)
	if err != nil {
		return Attempt{Attempt: standing, Trouble: err.Error()}, fmt.Errorf("%s: %w", doing, err)
	}
	if said.final() {
		standing, err = p.record(context.WithoutCancel(ctx), standing, paid.accountID, said)
	}
	return Attempt{Attempt: standing, Said: said}, err
}

// status asks the rail for a payout's key.
func (p *Proxy) status(ctx context.Context, paid payout) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	said, err := p.rail.Status(ctx, paid.key)
	if err == nil {
		err = paid.matches(said)
	}
	return said.recordable(), err
}

// overdue gives up an attempt that is in flight past its deadline, and returns what
// holds the slot.
func (p *Proxy) overdue(ctx context.Context, doing, payoutID string) (payout, paystore.Attempt, error) {
	paid, err := p.payout(ctx, doing, payoutID)
	if err != nil {
		return payout{}, paystore.Attempt{}, err
	}
	if _, _, err := p.change(ctx, doing, payoutID, overdueQuery, payoutID, p.opts.Timeout.Seconds()); err != nil {
		return payout{}, paystore.Attempt{}, err
	}
	standing, found, err := p.find(ctx, doing, standingAttemptQuery, payoutID)
	if err == nil && !found {
		err = fmt.Errorf("%s: it has no attempt: %w", doing, paystore.ErrNotFound)
	}
	return paid, standing, err
}
