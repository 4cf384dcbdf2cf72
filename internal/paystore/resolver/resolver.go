package resolver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// Options configure New.
type Options struct {
	// Deadline is the forwarding deadline of every rail-proxy that may have been at
	// work ([rail.Options].Timeout, K-4.11). Zero is rail.DefaultTimeout.
	Deadline time.Duration
	// Operator and Reason are kept with the evidence. The operator's name is the
	// holder's, too.
	Operator, Reason string
}

// Resolver settles payouts by the rail's record, one at a time.
type Resolver struct {
	db      *paystore.DB
	posting *posting.Store
	proxy   *rail.Proxy
	opts    Options
	// sure is when nothing forgotten can be on its way to the rail any more.
	sure time.Time
	// known tells that the rail knows what it is sure to have paid.
	known bool
}

// New is a resolver on paydb; db must be one that may read the ledger. It owns none
// of the three.
func New(db *paystore.DB, moves *posting.Store, proxy *rail.Proxy, opts Options) *Resolver {
	if opts.Deadline <= 0 {
		opts.Deadline = rail.DefaultTimeout
	}
	return &Resolver{db: db, posting: moves, proxy: proxy, opts: opts, sure: time.Now().Add(opts.Deadline)}
}

// Fate is what became of a payout.
type Fate string

// The fates.
const (
	// Acked: the rail has paid, and the payout is to be posted.
	Acked Fate = "acked"
	// Failed: the rail has not paid, and never will for this payout.
	Failed Fate = "failed"
	// Free: the rail has no record and no attempt holds the slot; it may be paid.
	Free Fate = "free"
	// Unknown: the rail has not decided, or an attempt may still reach it.
	Unknown Fate = "unknown"
	// Contradicted: the rail says otherwise than what is recorded here.
	Contradicted Fate = "contradicted"
)

// Result is what Settle did.
type Result struct {
	PayoutID  string `json:"payout_id"`
	AccountID string `json:"account_id"`
	// From is the state that was found, State the one it is in.
	From  paystore.State `json:"from"`
	State paystore.State `json:"state"`
	Fate  Fate           `json:"fate"`
	Said  rail.Answer    `json:"said"`
	// Why says what stands in the way; empty for a payout that is settled.
	Why string `json:"why,omitempty"`
}

// Settle asks the rail about a payout that is not final and carries it to where the
// rail's record leads, RAIL_ACKED at most: posting it is the caller's. token is that
// of the account's lock, fresh for each payout, since one grant marks and posts one
// (K-4.2). While the rail knows nothing of a payout without an attempt, it waits out
// the forwarding deadline once in the resolver's life and asks again.
//
// It returns the rail's error with nothing recorded, *paystore.StateError for a
// final payout, *EvidenceError when the rail has another payment under the key,
// *WrongRailError, and what the moves return.
func (r *Resolver) Settle(ctx context.Context, payoutID string, token paystore.Token) (Result, error) {
	p, err := r.db.Payout(ctx, payoutID)
	if err != nil {
		return Result{}, err
	}
	result := Result{PayoutID: p.PayoutID, AccountID: p.AccountID, From: p.State, State: p.State}
	if p.State.Final() {
		return result, &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: []paystore.State{
			paystore.Pending, paystore.Claimed, paystore.RailSubmitted, paystore.RailAmbiguous, paystore.RailAcked,
		}}
	}
	before := attemptOf(p)
	attempt, said, err := r.ask(ctx, p.PayoutID, before)
	if err != nil {
		return result, err
	}
	result.Said = said
	verdict := verdictOf(said)
	if verdict == paystore.VerdictNotFound {
		if err := r.prove(ctx, p.PayoutID); err != nil {
			return result, err
		}
	}
	if result.Why = objection(p.State, attempt, said); result.Why != "" {
		return r.dispute(ctx, result, verdict, token)
	}
	if verdict == paystore.VerdictUndetermined || (verdict == paystore.VerdictNotFound && attempt != nil && attempt.Outcome == "") {
		result.Fate, result.Why = Unknown, undecided(attempt, said)
		return result, r.attest(ctx, result, paystore.VerdictUndetermined, token)
	}
	if err := r.attest(ctx, result, verdict, token); err != nil {
		return result, err
	}
	if verdict == paystore.VerdictNotFound && attempt == nil && p.State != paystore.RailAmbiguous {
		result.Fate = Free
		return result, nil
	}
	return r.walk(ctx, result, verdict, token, attempt == nil)
}

// ask asks the rail, and answers the attempt there is.
func (r *Resolver) ask(ctx context.Context, id string, attempt *paystore.Attempt) (*paystore.Attempt, rail.Answer, error) {
	if attempt != nil && (attempt.Outcome == "" || attempt.Outcome == paystore.OutcomeTimeout) {
		asked, err := r.proxy.Ask(ctx, id)
		if err == nil && asked.Repeated { // answered meanwhile: nobody was asked
			asked.Said, err = r.proxy.Lookup(ctx, id)
		}
		return &asked.Attempt, asked.Said, err
	}
	said, err := r.proxy.Lookup(ctx, id)
	if err != nil || attempt != nil || said.Outcome != rail.NotFound || time.Until(r.sure) <= 0 {
		return attempt, said, err
	}
	wait := time.NewTimer(time.Until(r.sure))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil, rail.Answer{}, fmt.Errorf("wait for what may be on its way to the rail: %w", context.Cause(ctx))
	case <-wait.C:
	}
	said, err = r.proxy.Lookup(ctx, id)
	return nil, said, err
}

// attemptOf is the attempt that holds the payout's slot, nil for none.
func attemptOf(p paystore.PayoutDetail) *paystore.Attempt {
	for _, a := range p.Attempts {
		if a.Outcome != paystore.OutcomeFenced {
			return &a
		}
	}
	return nil
}

func verdictOf(said rail.Answer) paystore.Verdict {
	switch said.Outcome {
	case paystore.OutcomeAcked:
		return paystore.VerdictPaid
	case paystore.OutcomeRejected:
		return paystore.VerdictRejected
	case rail.NotFound:
		return paystore.VerdictNotFound
	default:
		return paystore.VerdictUndetermined
	}
}

// objection is where the rail's record and paydb's disagree; empty where they do not.
func objection(state paystore.State, attempt *paystore.Attempt, said rail.Answer) string {
	answered := attempt != nil && (attempt.Outcome == paystore.OutcomeAcked || attempt.Outcome == paystore.OutcomeRejected)
	switch {
	case answered && said.Outcome != "" && said.Outcome != attempt.Outcome:
		return fmt.Sprintf("the rail says %s, and its answer recorded here is %s (reference %q)", said.Outcome, attempt.Outcome, attempt.RailReference)
	case state == paystore.RailAcked && said.Outcome != "" && said.Outcome != paystore.OutcomeAcked:
		return fmt.Sprintf("the rail says %s, and the payout is %s", said.Outcome, state)
	default:
		return ""
	}
}

func undecided(attempt *paystore.Attempt, said rail.Answer) string {
	if said.Outcome == rail.NotFound && attempt != nil {
		return "its attempt may still be on its way to the rail; ask again once the forwarding deadline has passed"
	}
	return fmt.Sprintf("the rail has it and has not decided: %q", said.Text)
}

// dispute keeps both sides and moves nothing: a person decides. A payment that the
// rail says it made is kept as one, whatever stands here, so that no other writer
// fails the payout.
func (r *Resolver) dispute(ctx context.Context, result Result, verdict paystore.Verdict, token paystore.Token) (Result, error) {
	result.Fate = Contradicted
	if verdict != paystore.VerdictPaid {
		verdict = paystore.VerdictUndetermined
	}
	return result, r.attest(ctx, result, verdict, token)
}

func (r *Resolver) attest(ctx context.Context, result Result, verdict paystore.Verdict, token paystore.Token) error {
	params, err := r.params(result, verdict, token)
	if err != nil {
		return err
	}
	_, err = r.posting.Attest(ctx, params)
	return err
}

// params are the evidence of the rail's answer. The time is the record's own, so that
// the same answer again is the same evidence.
func (r *Resolver) params(result Result, verdict paystore.Verdict, token paystore.Token) (posting.ResolveParams, error) {
	evidence := map[string]any{"rail": result.Said}
	if result.Why != "" {
		evidence["note"] = result.Why
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return posting.ResolveParams{}, fmt.Errorf("encode the rail's answer: %w", err)
	}
	return posting.ResolveParams{
		PayoutID: result.PayoutID, Token: token, Source: paystore.SourceRail, Verdict: verdict, Evidence: raw,
		Operator: r.opts.Operator, Reason: r.opts.Reason,
	}, nil
}
