package rail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// reply is what came back from the rail's call.
type reply struct {
	answer Answer
	err    error
}

// outcome is what Submit returns.
type outcome struct {
	attempt Attempt
	err     error
}

// forward hands the payout to the rail, once. The call goes on when the caller goes
// away: the slot is taken for ever, and somebody has to hear what becomes of it. Its
// caller has entered, so that Close has not stopped waiting when it begins.
func (p *Proxy) forward(ctx context.Context, r reservation, deadline time.Time) (Attempt, error) {
	outcomes := make(chan outcome, 1)
	p.open.Go(func() { p.attend(context.WithoutCancel(ctx), r, deadline, outcomes) })
	select {
	case o := <-outcomes:
		return o.attempt, o.err
	case <-ctx.Done():
		return Attempt{Attempt: r.attempt}, &paystore.UnknownOutcomeError{
			Doing: "wait for the rail's answer to payout " + r.payout.id, Err: context.Cause(ctx),
		}
	}
}

// attend calls the rail and takes down what it says, in time or late.
func (p *Proxy) attend(ctx context.Context, r reservation, deadline time.Time, outcomes chan<- outcome) {
	left := until(deadline)
	if left <= 0 {
		outcomes <- p.giveUp(ctx, r, "nothing was sent: the forwarding deadline had passed")
		return
	}
	calling, cancel := context.WithTimeout(ctx, left+p.opts.Listen)
	defer cancel()
	replies := make(chan reply, 1)
	go func() {
		answer, err := p.rail.Submit(calling, r.request(deadline))
		if err == nil {
			err = r.payout.matches(answer)
		}
		replies <- reply{answer, err}
	}()
	patience := time.NewTimer(left)
	defer patience.Stop()
	select {
	case said := <-replies:
		if said.err == nil && said.answer.final() {
			outcomes <- p.settle(ctx, r, said.answer)
			return
		}
		// TIMEOUT tells others that the rail may be asked and the payout resolved, so
		// it is not said before the deadline (K-4.11).
		<-patience.C
		outcomes <- p.giveUp(ctx, r, said.trouble())
		return
	case <-patience.C:
	}
	outcomes <- p.giveUp(ctx, r, fmt.Sprintf("no answer within %s", p.opts.Timeout))
	select {
	case said := <-replies:
		if said.err == nil && said.answer.final() {
			_ = p.settle(ctx, r, said.answer) // what could not be recorded was observed
		}
	case <-p.closing:
	case <-calling.Done():
	}
}

// trouble is why a reply decides nothing.
func (r reply) trouble() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("the rail has not decided: %q", r.answer.Text)
}

func (r reservation) request(sendBy time.Time) Request {
	return Request{
		Key: r.payout.key, PayoutID: r.payout.id, AccountID: r.payout.accountID,
		AmountMinor: r.payout.amountMinor, Currency: r.payout.currency, SendBy: sendBy,
	}
}

// settle records a final answer.
func (p *Proxy) settle(ctx context.Context, r reservation, said Answer) outcome {
	if !r.own { // fencing is off, and another's attempt holds the slot
		return outcome{attempt: r.unwritten(said.Outcome, said)}
	}
	attempt, err := p.record(ctx, r.attempt, r.payout.accountID, said)
	return outcome{Attempt{Attempt: attempt, Said: said}, err}
}

// giveUp records that the outcome is unknown.
func (p *Proxy) giveUp(ctx context.Context, r reservation, trouble string) outcome {
	if !r.own {
		attempt := r.unwritten(paystore.OutcomeTimeout, Answer{})
		attempt.Trouble = trouble
		return outcome{attempt: attempt}
	}
	attempt, err := p.move(ctx, "record that payout "+r.payout.id+" got no answer from the rail", r.attempt, timeoutQuery, r.attempt.SubmissionID)
	return outcome{Attempt{Attempt: attempt, Trouble: trouble}, err}
}

// unwritten is an attempt that paydb does not have.
func (r reservation) unwritten(o paystore.Outcome, said Answer) Attempt {
	return Attempt{
		Attempt: paystore.Attempt{
			PayoutID: r.payout.id, IdempotencyKey: r.payout.key, PresentedToken: r.token, Outcome: o, RailReference: said.Reference,
		},
		Said: said,
	}
}

// record takes a final answer down. An earlier answer stands, and one that says
// otherwise is observed.
func (p *Proxy) record(ctx context.Context, a paystore.Attempt, accountID string, said Answer) (paystore.Attempt, error) {
	said = said.recordable()
	doing := fmt.Sprintf("record that the rail answered %s (reference %q) to payout %s", said.Outcome, said.Reference, a.PayoutID)
	stands, err := p.move(ctx, doing, a, answerQuery, a.SubmissionID, said.Outcome, said.Reference)
	event := Event{PayoutID: a.PayoutID, AccountID: accountID, Presented: a.PresentedToken, Said: said}
	switch {
	case err != nil:
		event.Name, event.Err = EventUnrecorded, err
		p.observe(ctx, event)
	case stands.Outcome != said.Outcome || stands.RailReference != said.Reference:
		event.Name = EventContradicted
		p.observe(ctx, event)
	}
	return stands, err
}

// move changes the attempt's outcome, or returns what it is already. It is repeated
// while paydb is away: the statement compares what it leaves, and can only succeed
// once.
func (p *Proxy) move(ctx context.Context, doing string, a paystore.Attempt, sql string, args ...any) (paystore.Attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Persist)
	defer cancel()
	stands, err := backoff.Retry(ctx, func() (paystore.Attempt, error) {
		moved, found, err := p.change(ctx, doing, a.PayoutID, sql, args...)
		if err == nil && !found {
			moved, found, err = p.find(ctx, doing, ownAttemptQuery, a.SubmissionID)
		}
		switch {
		case err == nil && !found:
			return a, backoff.Permanent(fmt.Errorf("%s: attempt %s: %w", doing, a.SubmissionID, paystore.ErrNotFound))
		case err != nil && !passing(err):
			return a, backoff.Permanent(err)
		}
		return moved, err
	}, backoff.WithMaxElapsedTime(p.opts.Persist), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second,
	}))
	if err != nil {
		// What the rail does is under way or done, and paydb does not say it.
		return a, &paystore.UnknownOutcomeError{Doing: doing, Err: err}
	}
	return stands, nil
}

// passing tells that the same statement may succeed in a moment.
func passing(err error) bool {
	_, unreachable := errors.AsType[*paystore.UnreachableError](err)
	_, unknown := errors.AsType[*paystore.UnknownOutcomeError](err)
	_, blocked := errors.AsType[*paystore.BlockedError](err)
	return unreachable || unknown || blocked
}
