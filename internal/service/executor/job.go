package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// Outcome is what became of a payout in an executor's hands: a label of its metrics.
type Outcome string

// The outcomes.
const (
	Posted Outcome = "posted"
	Failed Outcome = "failed"
	// Undecided: the rail, or the attempt, does not say yet.
	Undecided Outcome = "undecided"
	// Moved: somebody else moved it, an operator for example.
	Moved Outcome = "moved"
	// Fenced: a later holder has been there.
	Fenced Outcome = "fenced"
	// Lost: the lease ended first.
	Lost Outcome = "lost"
	// Stopped: the executor was stopped first.
	Stopped Outcome = "stopped"
	// Broken: a service did not answer, or answered with something else.
	Broken Outcome = "broken"
)

const (
	// mostSteps bounds a walk: no payout needs so many.
	mostSteps = 12
	// mostTries is how often a step is tried with the same token.
	mostTries = 5
	reason    = "the rail's own record, which payout-executor asked for"
)

// errUndecided is a payout that cannot be carried on before somebody says more.
var errUndecided = errors.New("not decided yet")

// job is one payout under one grant.
type job struct {
	*worker
	lease  *client.Lease
	payout payapi.Payout
	token  paystore.Token
	holder string
}

// run claims the payout, or takes it over, and walks it to its end (K-5.2). The error
// says why it did not get there.
func (j *job) run(ctx context.Context) (Outcome, error) {
	err := j.move(ctx, func(ctx context.Context) (payapi.Payout, error) {
		return j.opts.Payments.Claim(ctx, j.payout.PayoutID, j.holder, j.token)
	})
	for steps := 0; err == nil && !j.payout.State.Final(); steps++ {
		if steps == mostSteps {
			err = fmt.Errorf("payout %s is %s after %d steps", j.payout.PayoutID, j.payout.State, steps)
			break
		}
		err = j.step(ctx)
	}
	return j.outcome(ctx, err)
}

// step goes on from the state that was found.
func (j *job) step(ctx context.Context) error {
	switch j.payout.State {
	case paystore.Claimed:
		return j.submit(ctx)
	case paystore.RailSubmitted:
		return j.rail(ctx)
	case paystore.RailAmbiguous:
		return j.resolve(ctx)
	case paystore.RailAcked:
		return j.post(ctx)
	default: // a claim leaves no PENDING, and run stops at the final ones
		return &paystore.StateError{PayoutID: j.payout.PayoutID, Have: j.payout.State, Want: paystore.OpenStates()}
	}
}

// submit moves a payout that can be paid to the rail's door (K-4.9).
func (j *job) submit(ctx context.Context) error {
	_, err := call(ctx, j, PaymentResource, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, j.opts.Payments.CheckFunds(ctx, j.payout.PayoutID, j.token)
	})
	if err != nil {
		return j.rejected(ctx, err)
	}
	return j.move(ctx, func(ctx context.Context) (payapi.Payout, error) {
		return j.opts.Payments.Submit(ctx, j.payout.PayoutID, j.token)
	})
}

// rail has the payout forwarded, unless an attempt stands already, whoever made it,
// and moves it as the attempt says (K-5.3).
func (j *job) rail(ctx context.Context) error {
	attempt, err := call(ctx, j, RailProxy, func(ctx context.Context) (payapi.Attempt, error) {
		return j.opts.Rail.Submit(ctx, j.payout.PayoutID, j.token)
	})
	if _, paid := errors.AsType[*paystore.EvidenceError](err); paid {
		// The rail has paid it before, and a restored paydb has forgotten (K-7.9).
		attempt, err = call(ctx, j, RailProxy, func(ctx context.Context) (payapi.Attempt, error) {
			return j.opts.Rail.Adopt(ctx, j.payout.PayoutID, j.token)
		})
	}
	if err == nil && attempt.Outcome == "" {
		attempt, err = j.ask(ctx)
	}
	if err == nil && attempt.Outcome == "" {
		err = fmt.Errorf("the attempt is in flight: %w", errUndecided)
	}
	if err != nil {
		return err
	}
	return j.move(ctx, func(ctx context.Context) (payapi.Payout, error) {
		return j.opts.Payments.Settle(ctx, j.payout.PayoutID, j.token)
	})
}

// ask asks the rail, once: one that does not answer is asked again another time.
func (j *job) ask(ctx context.Context) (payapi.Attempt, error) {
	attempt, err := call(ctx, j, RailProxy, func(ctx context.Context) (payapi.Attempt, error) {
		return j.opts.Rail.Ask(ctx, j.payout.PayoutID)
	})
	if silent, ok := errors.AsType[*payapi.RailError](err); ok {
		err = fmt.Errorf("%w: %w", errUndecided, silent)
	}
	return attempt, err
}

// resolve moves a payout whose answer nobody saw in time, by the rail's own record.
func (j *job) resolve(ctx context.Context) error {
	attempt, err := j.ask(ctx)
	if err != nil {
		return err
	}
	verdict, err := j.verdict(ctx, attempt)
	if err != nil {
		return err
	}
	evidence, err := json.Marshal(map[string]any{"outcome": attempt.Outcome, "reference": attempt.RailReference, "rail": attempt.Said})
	if err != nil {
		return fmt.Errorf("encode the rail's answer: %w", err)
	}
	return j.move(ctx, func(ctx context.Context) (payapi.Payout, error) {
		return j.opts.Payments.Resolve(ctx, payapi.SettleByEvidence{
			PayoutID: j.payout.PayoutID, Source: paystore.SourceRail, Verdict: verdict, Evidence: evidence, Operator: j.opts.Owner, Reason: reason,
		}, j.token)
	})
}

// verdict is what the rail's record proves. That it has no such payment proves
// something beside TIMEOUT alone: before, the request may be on its way (K-4.11).
func (j *job) verdict(ctx context.Context, attempt payapi.Attempt) (paystore.Verdict, error) {
	switch {
	case attempt.Outcome == paystore.OutcomeAcked:
		return paystore.VerdictPaid, nil
	case attempt.Outcome == paystore.OutcomeRejected:
		return paystore.VerdictRejected, nil
	case attempt.Outcome == paystore.OutcomeTimeout && attempt.Said != nil && attempt.Said.Outcome == payapi.NotFound:
		return paystore.VerdictNotFound, j.prove(ctx)
	default:
		return "", fmt.Errorf("the rail has not decided: %w", errUndecided)
	}
}

// prove asks the rail about a payment that it has acknowledged before, for "no such
// payment" is believed of the right rail alone: a test rail would fail every payout.
func (j *job) prove(ctx context.Context) error {
	posted, err := call(ctx, j, PaymentResource, func(ctx context.Context) (payapi.PayoutList, error) {
		return j.opts.Payments.Payouts(ctx, client.PayoutFilter{States: []paystore.State{paystore.Posted}, Limit: 1})
	})
	if err != nil || len(posted.Payouts) == 0 { // nothing was ever acknowledged
		return err
	}
	witness := posted.Payouts[0].PayoutID
	said, err := call(ctx, j, RailProxy, func(ctx context.Context) (payapi.Answer, error) { return j.opts.Rail.Lookup(ctx, witness) })
	if silent, ok := errors.AsType[*payapi.RailError](err); ok {
		return fmt.Errorf("%w: %w", errUndecided, silent)
	}
	if err == nil && said.Outcome == payapi.NotFound {
		err = fmt.Errorf("this rail has no record of payout %s, which it has acknowledged: is it the right one? %w", witness, errUndecided)
	}
	return err
}

// post enters an acknowledged payout into the ledger.
func (j *job) post(ctx context.Context) error {
	_, err := call(ctx, j, PaymentResource, func(ctx context.Context) (payapi.Posting, error) {
		return j.opts.Payments.Post(ctx, j.payout.PayoutID, j.token)
	})
	if err != nil {
		return j.rejected(ctx, err)
	}
	j.payout.State = paystore.Posted
	return nil
}

// rejected fails a payout whose account cannot pay; after the rail's acknowledgement
// that is money out and no debit, which reconcile names (K-5.5). It returns other
// errors as they are.
func (j *job) rejected(ctx context.Context, err error) error {
	if _, business := errors.AsType[*paystore.RejectedError](err); !business {
		return err
	}
	j.opts.Log.WarnContext(ctx, "payout rejected", slog.String("payout_id", j.payout.PayoutID), slog.String("state", string(j.payout.State)), failed(err))
	return j.move(ctx, func(ctx context.Context) (payapi.Payout, error) {
		return j.opts.Payments.Reject(ctx, j.payout.PayoutID, j.token)
	})
}

// move makes a step that answers with the payout as it then stands.
func (j *job) move(ctx context.Context, do func(context.Context) (payapi.Payout, error)) error {
	payout, err := call(ctx, j, PaymentResource, do)
	if err == nil {
		j.payout = payout
	}
	return err
}

// call makes a step under the lease: not unless it may be trusted, and again with the
// same token while what went wrong may pass (K-4.3).
func call[T any](ctx context.Context, j *job, service string, do func(context.Context) (T, error)) (answer T, err error) {
	pauses := &backoff.ExponentialBackOff{InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 3, MaxInterval: 2 * time.Second}
	pauses.Reset()
	for tried := 1; ; tried++ {
		if err := j.lease.Check(); err != nil {
			return answer, err
		}
		answer, err = do(ctx)
		j.heard(ctx, service, err)
		if err == nil || tried == mostTries || !passing(err) || lockstore.Pause(ctx, pauses.NextBackOff()) != nil {
			return answer, err
		}
	}
}

// passing tells that the same step may succeed in a moment.
func passing(err error) bool {
	_, blocked := errors.AsType[*paystore.BlockedError](err)
	p, refused := problem.From(err)
	return blocked || away(err) || refused && (p.Code == problem.RateLimited || p.Code == problem.Draining)
}

// outcome says what an error means, and gives back what was only claimed when the
// executor has to stop.
func (j *job) outcome(ctx context.Context, err error) (Outcome, error) {
	if err == nil {
		if j.payout.State == paystore.Posted {
			return Posted, nil
		}
		return Failed, nil
	}
	var fenced *paystore.FencedError
	var state *paystore.StateError
	var claimed *paystore.ClaimedError
	var gate *paystore.GateClosedError
	var evidence *paystore.EvidenceError
	cause := j.lease.Check()
	switch {
	case errors.As(err, &fenced):
		return Fenced, err
	case errors.Is(cause, errDrained):
		j.giveBack(ctx)
		return Stopped, err
	case cause != nil:
		return Lost, cause
	case errors.As(err, &state), errors.As(err, &claimed):
		return Moved, err
	case errors.Is(err, errUndecided), errors.As(err, &gate), errors.As(err, &evidence):
		return Undecided, err
	default:
		return Broken, err
	}
}

// giveBack makes a payout PENDING again that has not left for the rail, so that others
// need not take it over.
func (j *job) giveBack(ctx context.Context) {
	if j.payout.State != paystore.Claimed || j.lease.Left() <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
	defer cancel()
	if _, err := j.opts.Payments.Release(ctx, j.payout.PayoutID, j.token); err != nil {
		j.opts.Log.InfoContext(ctx, "not given back", slog.String("payout_id", j.payout.PayoutID), failed(err))
	}
}
