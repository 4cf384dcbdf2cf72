package rail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Attempt is a payout's attempt, as it stands after a call.
type Attempt struct {
	paystore.Attempt
	// Repeated tells that this call forwarded nothing: the attempt stood already.
	Repeated bool `json:"repeated,omitempty"`
	// Said is what the rail said to this call.
	Said Answer `json:"said,omitzero"`
	// Trouble is why the rail said nothing.
	Trouble string `json:"trouble,omitempty"`
}

// Submit forwards the payout to the rail, once in its life: mark and attempt first,
// in one transaction (K-4.11), then the rail, then its answer, which is waited for
// until the forwarding deadline. An attempt that stands already is the answer, and
// nothing is forwarded. An unknown outcome is no error: the attempt is TIMEOUT, or in
// flight ("") where another call waits for it.
//
// It returns *paystore.FencedError for a token that came too late, *StateError for a
// payout that is not for the rail, ErrNotFound, ErrInvalid (also for a token that
// never claimed the payout), *GateClosedError, *EvidenceError for a payout that the
// rail has paid already (K-7.9: Adopt it), *UnreachableError, also after Close, and
// *UnknownOutcomeError when ctx ended first, or paydb did not take the attempt or the
// answer down: repeat the same token, or Ask.
func (p *Proxy) Submit(ctx context.Context, payoutID string, token paystore.Token) (Attempt, error) {
	deadline := time.Now().Add(p.opts.Timeout)
	payoutID, err := paystore.ParseID("payout", payoutID)
	if err != nil {
		return Attempt{}, err
	}
	if err := paystore.ValidToken(token); err != nil {
		return Attempt{}, err
	}
	doing := "submit payout " + payoutID + " to the rail"
	leave, err := p.enter(doing)
	if err != nil {
		return Attempt{}, err
	}
	defer leave()
	r, err := p.reserve(ctx, doing, payoutID, token, deadline)
	if err != nil {
		return Attempt{}, err
	}
	switch {
	case r.fenced != nil:
		return Attempt{}, p.refused(ctx, r)
	case r.own || p.opts.FencingDisabled:
		return p.forward(ctx, r, deadline)
	case r.attempt.PresentedToken != token:
		p.observe(ctx, Event{Name: EventDuplicate, PayoutID: payoutID, AccountID: r.payout.accountID, Presented: token, Stored: r.attempt.PresentedToken})
	}
	return Attempt{Attempt: r.attempt, Repeated: true}, nil
}

// refused tells of a token that came too late, and returns what its caller gets.
func (p *Proxy) refused(ctx context.Context, r reservation) error {
	event := Event{Name: EventFencedOut, PayoutID: r.payout.id, AccountID: r.payout.accountID, Presented: r.token, Stored: r.fenced.Stored}
	p.observe(ctx, event)
	if r.fenced.Resource == paystore.ResourceRail {
		event.Name = EventDuplicate
		p.observe(ctx, event)
	}
	return fmt.Errorf("submit payout %s to the rail: %w", r.payout.id, r.fenced)
}

// reservation is what one transaction decided.
type reservation struct {
	payout payout
	token  paystore.Token
	// attempt holds the payout's slot; own tells that this call wrote it.
	attempt paystore.Attempt
	own     bool
	// adopting tells that nothing will be forwarded.
	adopting bool
	fenced   *paystore.FencedError
}

// reserve writes mark and attempt. Nobody may be told before its COMMIT answered.
func (p *Proxy) reserve(ctx context.Context, doing, payoutID string, token paystore.Token, deadline time.Time) (reservation, error) {
	id := uuid.NewString()
	var r reservation
	err := p.db.Transaction(ctx, doing, payoutID, func(tx pgx.Tx) (err error) {
		r = reservation{token: token}
		if r.payout, err = readPayout(ctx, tx, payoutID, token); err != nil {
			return err
		}
		if p.opts.FencingDisabled {
			return r.note(ctx, tx, id)
		}
		return r.take(ctx, tx, id)
	})
	_, unknown := errors.AsType[*paystore.UnknownOutcomeError](err)
	switch {
	case unknown && r.own:
		return p.readBack(ctx, r, deadline, err)
	case pgtx.HasCode(err, pgerrcode.CheckViolation):
		return reservation{}, p.notForRail(ctx, payoutID, err)
	}
	return r, err
}

// notForRail explains what paydb refused: only RAIL_SUBMITTED leads to the rail, and
// its guards look at the state when the attempt is written (K-4.11).
func (p *Proxy) notForRail(ctx context.Context, payoutID string, refused error) error {
	doing := "submit payout " + payoutID + " to the rail"
	paid, err := p.payout(ctx, doing, payoutID)
	if err != nil || paid.state == paystore.RailSubmitted {
		return refused
	}
	return fmt.Errorf("%s: %w", doing, &paystore.StateError{PayoutID: payoutID, Have: paid.state, Want: []paystore.State{paystore.RailSubmitted}})
}

// readBack settles a COMMIT whose answer was lost. Only a row of this call's own id
// proves that it is this call's to forward; its absence proves nothing, for the
// server may still come to it.
func (p *Proxy) readBack(ctx context.Context, r reservation, deadline time.Time, lost error) (reservation, error) {
	// The caller may have gone, which may be why the answer was lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), until(deadline))
	defer cancel()
	stands, found, err := p.find(ctx, "read the attempt back", ownAttemptQuery, r.attempt.SubmissionID)
	if err != nil || !found {
		return reservation{}, lost
	}
	r.attempt = stands
	return r, nil
}

// take is K-4.11: the mark, then the slot.
func (r *reservation) take(ctx context.Context, tx pgx.Tx, id string) error {
	marked, err := mark(ctx, tx, r.payout.accountID, r.token)
	if err != nil {
		return err
	}
	// The mark's row is locked, or a higher one was seen: the attempts of every
	// earlier mark show in a statement that begins now.
	standing, found, err := findAttempt(ctx, tx, standingAttemptQuery, r.payout.id)
	switch {
	case err != nil:
		return err
	case found && (marked || standing.PresentedToken == r.token):
		r.attempt = standing
		return nil
	case !marked:
		return r.fence(ctx, tx, id, paystore.ResourceRail)
	case !r.payout.claimed && r.payout.claimToken < r.token:
		return fmt.Errorf("%w: token %d never claimed payout %s; claim it first", paystore.ErrInvalid, r.token, r.payout.id)
	case !r.payout.claimed:
		return r.fence(ctx, tx, id, paystore.ResourcePayout)
	case r.payout.paid && r.payout.state == paystore.RailSubmitted && !r.adopting:
		return &paystore.EvidenceError{
			Message: fmt.Sprintf("the rail has paid payout %s already, and paydb had forgotten it: it is not forwarded", r.payout.id),
			Hint:    "take the rail's payment down: dlockctl payout resolve " + r.payout.id + " --from-rail --reason TEXT",
		}
	}
	return r.insert(ctx, tx, id)
}

func (r *reservation) insert(ctx context.Context, tx pgx.Tx, id string) error {
	written, inserted, err := findAttempt(ctx, tx, attemptQuery, id, r.payout.id, r.payout.key, r.token)
	if err != nil {
		return err
	}
	if inserted {
		r.attempt, r.own = written, true
		return nil
	}
	// Somebody wrote an attempt without a mark, or the floor rose just now.
	standing, found, err := findAttempt(ctx, tx, standingAttemptQuery, r.payout.id)
	if err != nil {
		return err
	}
	if found {
		r.attempt = standing
		return nil
	}
	return r.fence(ctx, tx, id, paystore.ResourceFloor)
}

// fence keeps the stale attempt for the audit, in the same transaction, and names
// what it met; the floor, where that refuses the token everywhere.
func (r *reservation) fence(ctx context.Context, tx pgx.Tx, id string, resource paystore.Resource) error {
	highest, floor, err := barrier(ctx, tx, r.payout.accountID)
	if err != nil {
		return err
	}
	r.fenced = &paystore.FencedError{Resource: resource, AccountID: r.payout.accountID, PayoutID: r.payout.id, Presented: r.token, Stored: highest}
	switch {
	case floor >= r.token:
		r.fenced.Resource, r.fenced.Stored = paystore.ResourceFloor, floor
	case resource == paystore.ResourcePayout:
		r.fenced.Stored = r.payout.claimToken
	}
	_, err = tx.Exec(ctx, fencedQuery, id, r.payout.id, r.payout.key, r.token)
	return err
}

// note writes mark and attempt where they let themselves be written, because the
// payout is settled by its attempt; fencing is off, and what they refuse does not
// count (K-4.5).
func (r *reservation) note(ctx context.Context, tx pgx.Tx, id string) error {
	marked, err := mark(ctx, tx, r.payout.accountID, r.token)
	if err != nil || !marked || !r.payout.claimed || r.payout.state != paystore.RailSubmitted {
		return err
	}
	written, inserted, err := findAttempt(ctx, tx, attemptQuery, id, r.payout.id, r.payout.key, r.token)
	r.attempt, r.own = written, inserted
	return err
}
