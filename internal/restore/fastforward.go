package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// Result is what a fast-forward did.
type Result struct {
	Outcome Outcome  `json:"outcome"`
	Why     []string `json:"why"`
	Fixes   []string `json:"fixes"`
	// Step is where it ended, when that was not the last one.
	Step Step `json:"step,omitempty"`
	Plan Plan `json:"plan"`
	// From and To are the tokens last issued before and after.
	From    lockstore.Token `json:"from_token"`
	To      lockstore.Token `json:"to_token"`
	Skipped lockstore.Token `json:"skipped"`
	// Moved is false when the sequence stood there already: a run that was cut off
	// was completed.
	Moved          bool           `json:"moved"`
	SessionsVoided int            `json:"sessions_voided"`
	LocksVoided    int            `json:"locks_voided"`
	RecordID       int64          `json:"record_id,omitempty"`
	Floors         []floor.Raised `json:"floors"`
	// Mark is the path of the outside mark that was raised.
	Mark string `json:"mark,omitempty"`
	// GateOpen tells whether lockdb grants when this returns.
	GateOpen     bool            `json:"gate_open"`
	Blockers     []owner.Process `json:"blockers"`
	Verification *Verification   `json:"verification,omitempty"`
	// Next is what is left for the operator to do.
	Next []string `json:"next"`
}

// FastForward moves the token source of a lock database that was set back to where
// no token can be issued twice, in the steps of the package comment. What it
// refuses is an Outcome; an error is what no operator's decision helps with:
// *StalePlanError, *owner.RightsError, those of the stores, *CutOffError around them
// once the gate was closed, and *TakenOverError.
func FastForward(ctx context.Context, stores Stores, opts Options) (Result, error) {
	opts, err := opts.valid(true)
	if err != nil {
		return Result{}, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return Result{}, fmt.Errorf("make a run id: %w", err)
	}
	r := &run{id: id.String(), stores: stores, opts: opts, result: Result{Why: []string{}, Fixes: []string{}, Floors: []floor.Raised{}, Blockers: []owner.Process{}, Next: []string{}}}
	if done, err := r.prepare(ctx); done || err != nil {
		return r.result, err
	}
	for _, s := range r.steps() {
		r.begin(s.name)
		if err := s.do(ctx); err != nil {
			return r.end(ctx, s.name, err)
		}
	}
	return r.result, nil
}

// run is one fast-forward.
type run struct {
	id     string
	stores Stores
	opts   Options
	// outside is the evidence that is not lockdb's, read behind the barrier; still
	// is where the sequence stood then.
	outside []lockstore.Evidence
	still   lockstore.Token
	result  Result
}

type step struct {
	name Step
	do   func(context.Context) error
}

// steps are the order of K-7.4, K-7.5, K-7.8, K-11.
func (r *run) steps() []step {
	steps := []step{
		{StepCloseGate, r.closeGate}, {StepBarrier, r.barrier}, {StepAdvance, r.advance}, {StepJournal, r.stores.Lock.ExtendJournal},
	}
	if r.stores.Pay != nil {
		// Each point by its own path of writes, and each behind a barrier of its own.
		steps = append(steps,
			step{StepFloorAccount, func(ctx context.Context) error { return r.raise(ctx, floor.Account) }},
			step{StepBarrierAccount, func(ctx context.Context) error { return r.stores.Pay.Barrier(ctx, floor.Account) }},
			step{StepFloorRail, func(ctx context.Context) error { return r.raise(ctx, floor.Rail) }},
			step{StepBarrierRail, func(ctx context.Context) error { return r.stores.Pay.Barrier(ctx, floor.Rail) }})
	}
	if r.stores.Mark != nil {
		steps = append(steps, step{StepMark, r.raiseMark})
	}
	return append(steps, step{StepVerify, r.verify}, step{StepOpenGate, r.openGate})
}

func (r *run) begin(s Step) {
	if r.opts.Progress != nil {
		r.opts.Progress(s)
	}
}

// prepare makes the plan and tells whether that is all there is to it. Nothing has
// been changed.
func (r *run) prepare(ctx context.Context) (done bool, err error) {
	r.begin(StepEvidence)
	plan, err := Prepare(ctx, r.stores, r.opts)
	if err != nil {
		return true, err
	}
	r.result.Plan = plan
	r.result.From, r.result.To, r.result.GateOpen = plan.Last, plan.Last, plan.Gate.Open()
	if r.opts.Plan != nil && r.opts.Plan.Fingerprint != plan.Fingerprint {
		return true, &StalePlanError{Moved: r.opts.Plan.moved(plan)}
	}
	r.result.Outcome, r.result.Why, r.result.Fixes = plan.Outcome, plan.Why, plan.Fixes
	if plan.Outcome != Advanced {
		if plan.Outcome != Safe {
			r.result.Step = StepEvidence
		}
		return true, nil
	}
	if len(plan.Rights) > 0 {
		return true, &owner.RightsError{Doing: "fast-forward", Missing: plan.Rights}
	}
	if r.stores.Mark == nil {
		return false, nil
	}
	problem := r.stores.Mark.Writable()
	if problem != nil {
		r.result.Outcome, r.result.Step = RefusedConfig, StepEvidence
		r.result.Why, r.result.Fixes = []string{problem.Error()}, []string{"make the folder writable, or name another: --mark-dir"}
	}
	return problem != nil, nil
}

// lookWithin bounds the look at the gate of a run that is over.
const lookWithin = 3 * time.Second

// gateNow is the gate as it is left, nil when it cannot be read. The run's own
// connections may have ended with its context.
func (r *run) gateNow(ctx context.Context) *lockstore.Gate {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	fresh, err := r.stores.Lock.Fresh(ctx)
	if err != nil {
		return nil
	}
	defer fresh.Close(ctx)
	gate, err := fresh.Gate(ctx)
	if err != nil {
		return nil
	}
	return &gate
}

// end turns what a step ended in into the answer. The gate is closed by this run,
// unless it never came to that or another one has taken over: so it is read again, and
// what it says is told.
func (r *run) end(ctx context.Context, s Step, err error) (Result, error) {
	gate := r.gateNow(ctx)
	r.result.GateOpen, r.result.Step = gate != nil && gate.Open(), s
	_, unknown := errors.AsType[*owner.UnknownOutcomeError](err)
	blocked, isBlocked := errors.AsType[*owner.BlockedError](err)
	other := gate != nil && !unknown && (gate.Run == nil || gate.Run.ID != r.id)
	switch {
	case other && s != StepCloseGate:
		return r.result, &TakenOverError{Step: s, Gate: *gate}
	case isBlocked:
		r.result.Outcome, r.result.Why, r.result.Blockers = LockTimeout, []string{blocked.Error()}, blocked.Blockers
		r.result.Fixes = r.unblock(blocked.Blockers)
		return r.result, nil
	case other:
		return r.result, err // nothing was changed
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		r.result.Outcome, r.result.Why, r.result.Fixes = refused.Outcome, refused.Why, refused.Fixes
		return r.result, nil
	}
	return r.result, &CutOffError{Step: s, Gate: gate, Err: err}
}

// unblock says how those end that are in the way, and what holds until then.
func (r *run) unblock(blockers []owner.Process) []string {
	until := "; until then lockdb grants nothing"
	if r.result.GateOpen {
		until = ""
	}
	for _, p := range blockers {
		if p.Prepared != "" {
			return []string{fmt.Sprintf("decide the prepared transaction: ROLLBACK PREPARED '%s'", p.Prepared) + until}
		}
	}
	return []string{"end these transactions, or let it: --terminate" + until}
}

func (r *run) change(done lockstore.Token) lockstore.GateChange {
	return lockstore.GateChange{Operator: r.opts.Operator, Reason: r.opts.Reason, Run: r.id, Done: done}
}

func (r *run) closeGate(ctx context.Context) error {
	_, err := r.stores.Lock.CloseGate(ctx, r.change(0))
	return err
}

// barrier waits for the grants under way, then reads again what lies outside of
// lockdb: nothing is granted any more, and the sequence is read last.
func (r *run) barrier(ctx context.Context) error {
	err := r.stores.Lock.Barrier(ctx)
	if err != nil {
		return err
	}
	if r.outside, _, err = r.stores.outside(ctx, r.opts); err != nil {
		return err
	}
	source, err := r.stores.Lock.Source(ctx)
	r.still = source.Newest()
	return err
}

func (r *run) advance(ctx context.Context) error {
	advanced, err := r.stores.Lock.Advance(ctx, lockstore.AdvanceParams{
		Operator: r.opts.Operator, Reason: r.opts.Reason, Limit: r.opts.limit(), Decide: r.decide,
	})
	if err != nil {
		return err
	}
	r.result.From, r.result.To, r.result.Skipped, r.result.Moved = advanced.From, advanced.To, advanced.To-advanced.From, advanced.Moved
	r.result.SessionsVoided, r.result.LocksVoided, r.result.RecordID = advanced.SessionsVoided, advanced.LocksVoided, advanced.RecordID
	return nil
}

// decide is asked while nothing can be drawn: the last look, and the only one that
// counts.
func (r *run) decide(view lockstore.AdvanceView) (lockstore.Decision, error) {
	if view.Gate.Run == nil || view.Gate.Run.ID != r.id {
		return lockstore.Decision{}, &lockstore.GateMovedError{Gate: view.Gate}
	}
	// Another fast-forward, from which this one has taken over, may have moved it; that
	// drew nothing.
	drawn := view.Source.Newest()
	if drawn > r.still && !slices.Contains(view.FastForwards.Targets, drawn) {
		return lockstore.Decision{}, &refusal{
			Outcome: RefusedTraffic,
			Why:     []string{fmt.Sprintf("somebody draws tokens past the closed gate: the last one was %s, and is %s", r.still, drawn)},
			Fixes:   []string{"find who calls nextval on fencing_token_seq: dlockctl restore plan lists who is connected; until then lockdb grants nothing"},
		}
	}
	a := assess(slices.Concat(r.outside, view.Evidence), view.FastForwards.Targets, r.opts)
	target := a.target(r.opts.Margin)
	if r.opts.Plan != nil && target != r.opts.Plan.Target {
		if a.observed > r.opts.Plan.Observed {
			return lockstore.Decision{}, &StalePlanError{Moved: []string{fmt.Sprintf("%s has token %s since the gate was closed, and the plan knew of %s", a.source, a.observed, r.opts.Plan.Observed)}}
		}
		target = max(target, r.opts.Plan.Target)
	}
	if refused := refuse(view, a, r.stores, target); refused != nil {
		return lockstore.Decision{}, refused
	}
	fingerprint := ""
	if r.opts.Plan != nil {
		fingerprint = r.opts.Plan.Fingerprint
	}
	r.result.Plan.Evidence, r.result.Plan.Observed, r.result.Plan.ObservedIn, r.result.Plan.Target = a.evidence, a.observed, a.source, target
	return lockstore.Decision{Target: target, Record: lockstore.FastForwardRecord{
		Run: r.id, Observed: a.observed, Margin: r.opts.Margin, Evidence: a.evidence, Accepted: a.accepted, NoTokenAbove: r.opts.NoTokenAbove, Plan: fingerprint,
	}}, nil
}

func (r *run) raise(ctx context.Context, point floor.Point) error {
	raised, err := r.stores.Pay.Raise(ctx, point, paystore.Token(r.result.To), floor.Change{Operator: r.opts.Operator, Reason: r.opts.Reason})
	if err == nil {
		r.result.Floors = append(r.result.Floors, raised)
	}
	return err
}

// raiseMark raises the mark to the target, and makes the file anew when there never
// was one, or when the operator went on without it.
func (r *run) raiseMark(ctx context.Context) error {
	state, err := r.stores.Mark.Reach(ctx, r.result.To)
	if err != nil && (errors.Is(err, mark.ErrMissing) || accepts(r.opts.AcceptMissing, sourceMark)) {
		state, err = r.stores.Mark.Replace(ctx, r.result.To)
	}
	if err != nil {
		return err
	}
	r.result.Mark = state.Path
	if r.opts.After != nil {
		if err := r.opts.After(ctx, string(StepMark)+": raise"); err != nil {
			return err
		}
	}
	return r.stores.Lock.KeepMark(ctx)
}

// verify looks with new connections, before anything is granted again.
func (r *run) verify(ctx context.Context) error {
	fresh, err := r.stores.Lock.Fresh(ctx)
	if err != nil {
		return err
	}
	defer fresh.Close(ctx)
	stores := r.stores
	stores.Lock = fresh
	opts := r.opts
	opts.Again = false // what is recorded now is of this life
	found, err := verify(ctx, stores, opts, r.id)
	if err != nil {
		return err
	}
	r.result.Verification = &found
	if found.Safe {
		return nil
	}
	refused := &refusal{Outcome: VerifyFailed}
	for _, f := range found.Findings {
		refused.add(f.What, f.Fix)
	}
	return refused
}

func (r *run) openGate(ctx context.Context) error {
	gate, err := r.stores.Lock.OpenGate(ctx, r.change(r.result.To))
	if err != nil {
		return err
	}
	r.result.Outcome, r.result.GateOpen = Advanced, gate.Open()
	r.result.Why = r.result.Plan.reasons()
	next := []string{
		"take a fresh backup of lockdb now: a second restore of the old one needs this again",
		"let every standby that may be promoted replay up to here",
	}
	if gate.ClosedBy != "" {
		next = append(next, fmt.Sprintf("lockdb is still frozen by %s: %s; when that is over: %s", gate.ClosedBy, gate.Reason, runThaw))
	}
	if r.stores.Pay == nil && !r.stores.NoPayments {
		next = append(next, "no floor was raised, since paydb was out of reach: run this again as soon as it is back")
	}
	if pay := r.result.Plan.Pay; pay != nil && !pay.Open() {
		next = append(next, "paydb's own gate is closed: "+runResolve)
	}
	r.result.Next = next
	return nil
}
