package life_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// The seeded account that pays.
const payer = "00000000-0000-4000-8000-000000000001"

// hand is who calls the two services.
type hand struct {
	*posting.Store

	db    *paystore.DB
	proxy *rail.Proxy
	// forward is the rail itself, for one that goes round its proxy; mostly nil.
	forward rail.Rail
}

// scenario is what a client does, and how another goes on.
type scenario struct {
	name string
	// prepare is what stands before: of an earlier holder.
	prepare func(context.Context, world, hand, order) error
	// work is what the client does: all that it sends are the points.
	work func(context.Context, hand, order) error
	// finish is the heir's.
	finish func(context.Context, world, hand, order) error
	// back is what the client does that comes back; nil: its work.
	back func(context.Context, hand, order)
	// end is how the payout ends; resolutions how many are kept of it, -1 for any, and
	// raises how many raises of the fence.
	end         paystore.State
	resolutions int
	raises      int
	// paidBefore: the rail has the payment from before. lost is at how many points an
	// attempt is committed, and nobody is left to forward it.
	paidBefore bool
	lost       int
}

// scenarios are a whole payout, and each verb that another can be caught in.
func scenarios() []scenario {
	all := []scenario{
		payment(steps),
		{name: "release", prepare: at(paystore.Claimed, ""), work: func(ctx context.Context, h hand, o order) error {
			_, err := h.Release(ctx, o.payoutID, o.token)
			return err
		}, finish: finish, end: paystore.Posted},
		{name: "reject", prepare: at(paystore.Claimed, ""), work: reject, finish: func(ctx context.Context, _ world, h hand, o order) error {
			return again(ctx, h, o, reject)
		}, end: paystore.Failed},
		{name: "ask", prepare: at(paystore.RailSubmitted, "in flight"), work: func(ctx context.Context, h hand, o order) error {
			_, err := h.proxy.Ask(ctx, o.payoutID)
			return err
		}, finish: finish, end: paystore.Posted, resolutions: -1, paidBefore: true},
		{name: "raise fence", prepare: at(paystore.RailAcked, paystore.OutcomeAcked), work: raiseFence, finish: func(ctx context.Context, w world, h hand, o order) error {
			return errors.Join(raiseFence(ctx, h, o), finish(ctx, w, h, o))
		}, end: paystore.Posted, raises: 1, paidBefore: true},
		{name: "raise mark", prepare: at(paystore.RailAcked, paystore.OutcomeAcked), work: raiseMark, finish: func(ctx context.Context, w world, h hand, o order) error {
			return errors.Join(raiseMark(ctx, h, o), finish(ctx, w, h, o))
		}, end: paystore.Posted, paidBefore: true},
	}
	for state, outcome := range map[paystore.State]paystore.Outcome{
		paystore.Claimed: "", paystore.RailSubmitted: paystore.OutcomeAcked, paystore.RailAcked: paystore.OutcomeAcked, paystore.RailAmbiguous: paystore.OutcomeTimeout,
	} {
		s := scenario{
			name: "take over " + string(state), prepare: atEarlier(state, outcome), work: takeOver, finish: finish,
			end: paystore.Posted, paidBefore: outcome != "",
		}
		if state == paystore.RailAmbiguous {
			s.resolutions = 1
		}
		all = append(all, s)
	}
	for verdict, end := range map[paystore.Verdict]paystore.State{
		paystore.VerdictPaid: paystore.Posted, paystore.VerdictRejected: paystore.Failed,
		paystore.VerdictNotFound: paystore.Failed, paystore.VerdictUndetermined: paystore.Abandoned,
	} {
		all = append(all, resolving(verdict, end))
	}
	for _, state := range []paystore.State{paystore.Pending, paystore.Claimed} {
		all = append(all, givingUp(state))
	}
	return all
}

// payment is a whole payout, in steps; one that was taken as dead takes all of them.
func payment(steps func(context.Context, hand, order) []func() error) scenario {
	return scenario{
		name: "payout", prepare: nothing, finish: finish, end: paystore.Posted, resolutions: -1, lost: 1,
		work: func(ctx context.Context, h hand, o order) error {
			for _, step := range steps(ctx, h, o) {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		},
		back: func(ctx context.Context, h hand, o order) {
			for _, step := range steps(ctx, h, o) {
				_ = step() // refused or not, what stands is compared
			}
		},
	}
}

func resolving(verdict paystore.Verdict, end paystore.State) scenario {
	resolve := func(ctx context.Context, h hand, o order) error {
		_, err := h.Resolve(ctx, resolution(o.payoutID, o.token, verdict))
		return err
	}
	return scenario{
		name: "resolve " + string(verdict), prepare: at(paystore.RailAmbiguous, paystore.OutcomeTimeout), work: resolve,
		finish: func(ctx context.Context, w world, h hand, o order) error {
			return errors.Join(again(ctx, h, o, resolve), finish(ctx, w, h, o))
		},
		end: end, resolutions: 1, paidBefore: true,
	}
}

func givingUp(state paystore.State) scenario {
	giveUp := func(ctx context.Context, h hand, o order) error {
		token := o.token
		if state == paystore.Pending {
			token = 0
		}
		_, err := h.GiveUp(ctx, o.payoutID, token, "erin", "not wanted")
		return err
	}
	s := scenario{name: "give up " + string(state), prepare: at(state, ""), work: giveUp, end: paystore.Failed, resolutions: 1}
	s.finish = func(ctx context.Context, _ world, h hand, o order) error {
		if state == paystore.Pending {
			return giveUp(ctx, h, o)
		}
		return again(ctx, h, o, giveUp)
	}
	return s
}

// again does the client's work with the heir's token, where it was not done.
func again(ctx context.Context, h hand, o order, work func(context.Context, hand, order) error) error {
	p, err := h.db.Payout(ctx, o.payoutID)
	if err != nil || p.State.Final() {
		return err
	}
	if _, err := h.Claim(ctx, o.payoutID, "heir", o.later); err != nil {
		return err
	}
	if p.State == paystore.RailAcked { // resolved already
		return nil
	}
	o.token = o.later
	return work(ctx, h, o)
}

func nothing(context.Context, world, hand, order) error { return nil }

func create(ctx context.Context, h hand, o order) error {
	_, _, err := h.Create(ctx, posting.CreateParams{PayoutID: o.payoutID, AccountID: o.accountID, AmountMinor: 100, Currency: "EUR", IdempotencyKey: o.key})
	return err
}

// at brings the payout to a state under the client's token.
func at(state paystore.State, outcome paystore.Outcome) func(context.Context, world, hand, order) error {
	return func(ctx context.Context, w world, h hand, o order) error {
		o.earlier = o.token
		return atEarlier(state, outcome)(ctx, w, h, o)
	}
}

// atEarlier brings it there under the earlier holder's token. An outcome other than
// none means that the rail has paid.
func atEarlier(state paystore.State, outcome paystore.Outcome) func(context.Context, world, hand, order) error {
	return func(ctx context.Context, w world, h hand, o order) error {
		err := create(ctx, h, o)
		if err == nil && state != paystore.Pending {
			_, err = h.Claim(ctx, o.payoutID, "earlier", o.earlier)
		}
		if err == nil && state != paystore.Pending && state != paystore.Claimed {
			_, err = h.Submit(ctx, o.payoutID, o.earlier)
		}
		if err == nil && outcome != "" {
			w.rail.knows(o.key, reference(o.key, "paid", paystore.OutcomeAcked))
			err = w.attempt(ctx, o, outcome)
		}
		if err == nil && (state == paystore.RailAcked || state == paystore.RailAmbiguous) {
			_, err = h.Settle(ctx, o.payoutID, o.earlier)
		}
		return err
	}
}

// attempt is what an earlier proxy left: mark and attempt, and the outcome.
func (w world) attempt(ctx context.Context, o order, outcome paystore.Outcome) error {
	err := pgx.BeginFunc(ctx, w.super, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, $2)
			ON CONFLICT (account_id) DO UPDATE SET highest_token = EXCLUDED.highest_token`, o.accountID, o.earlier); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token)
			VALUES (gen_random_uuid(), $1, $2, $3)`, o.payoutID, o.key, o.earlier)
		return err
	})
	if err != nil {
		return err
	}
	if outcome == "in flight" {
		return w.makeOld(ctx, o.payoutID)
	}
	_, err = w.super.Exec(ctx, `UPDATE rail_submission SET outcome = $2, rail_reference = CASE $2 WHEN 'ACKED' THEN 'paid-' || idempotency_key END, resolved_at = now()
		WHERE payout_id = $1`, o.payoutID, outcome)
	return err
}

func takeOver(ctx context.Context, h hand, o order) error {
	_, err := h.Claim(ctx, o.payoutID, "client", o.token)
	return err
}

func reject(ctx context.Context, h hand, o order) error {
	_, err := h.Reject(ctx, o.payoutID, o.token)
	return err
}

func raiseFence(ctx context.Context, h hand, o order) error {
	_, _, err := h.RaiseFence(ctx, o.accountID, o.drawn, "erin", "revoked")
	return err
}

func raiseMark(ctx context.Context, h hand, o order) error {
	_, _, err := h.proxy.RaiseMark(ctx, o.accountID, o.drawn)
	return err
}

// steps are those of a whole payout.
func steps(ctx context.Context, h hand, o order) []func() error {
	return []func() error{
		func() error { return create(ctx, h, o) },
		func() error { return takeOver(ctx, h, o) },
		func() error { return h.CheckFunds(ctx, o.payoutID, o.token) },
		func() error { _, err := h.Submit(ctx, o.payoutID, o.token); return err },
		func() error { _, err := h.proxy.Submit(ctx, o.payoutID, o.token); return err },
		func() error { _, err := h.Settle(ctx, o.payoutID, o.token); return err },
		func() error { _, err := h.Post(ctx, o.payoutID, o.token); return err },
	}
}

// finish is the heir: it repeats the client's request, takes the payout over under a
// higher token and goes on from the state that it finds (K-5.2).
func finish(ctx context.Context, w world, h hand, o order) error {
	if err := create(ctx, h, o); err != nil {
		return err
	}
	for range 10 {
		detail, err := h.db.Payout(ctx, o.payoutID)
		p := detail.Payout
		if err != nil || p.State.Final() {
			return err
		}
		if p.ClaimToken != o.later {
			_, err = h.Claim(ctx, o.payoutID, "heir", o.later)
		} else {
			err = h.next(ctx, w, o, p.State)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.State, err)
		}
	}
	return errors.New("it does not come to an end")
}

func (h hand) next(ctx context.Context, w world, o order, state paystore.State) (err error) {
	switch state {
	case paystore.Claimed:
		if err = h.CheckFunds(ctx, o.payoutID, o.later); err == nil {
			_, err = h.Submit(ctx, o.payoutID, o.later)
		}
	case paystore.RailSubmitted:
		attempt, submitErr := h.proxy.Submit(ctx, o.payoutID, o.later)
		if err = submitErr; err == nil && attempt.Outcome == "" {
			// Who forwarded it is dead; the deadline has to pass before that is known.
			if err = w.makeOld(ctx, o.payoutID); err == nil {
				_, err = h.proxy.Ask(ctx, o.payoutID)
			}
		}
		if err == nil {
			_, err = h.Settle(ctx, o.payoutID, o.later)
		}
	case paystore.RailAmbiguous:
		attempt, askErr := h.proxy.Ask(ctx, o.payoutID)
		verdict := paystore.VerdictPaid
		if attempt.Said.Outcome == rail.NotFound {
			verdict = paystore.VerdictNotFound
		}
		if err = askErr; err == nil {
			_, err = h.Resolve(ctx, resolution(o.payoutID, o.later, verdict))
		}
	case paystore.RailAcked:
		_, err = h.Post(ctx, o.payoutID, o.later)
	default:
		err = fmt.Errorf("no way on from %s", state)
	}
	return err
}
