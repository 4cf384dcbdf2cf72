package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// DefaultMargin is how far above what was observed a fast-forward lands: a holder
// may carry a token that has reached no database. 2^53 leaves room for about two
// million of them (K-7.3).
const DefaultMargin lockstore.Token = 1 << 32

// leastHeadroom is what must be left above the target: one more fast-forward.
const leastHeadroom = DefaultMargin

// Outcome is what a fast-forward answers.
type Outcome string

// The outcomes. What is refused at the step of the evidence has changed nothing, nor has
// LOCK_TIMEOUT at close_gate; what is refused later, LOCK_TIMEOUT and VERIFY_FAILED leave
// the gate closed, and a rerun completes what was begun.
const (
	Safe            Outcome = "SAFE"
	Advanced        Outcome = "ADVANCED"
	RefusedTraffic  Outcome = "REFUSED_TRAFFIC"
	RefusedEvidence Outcome = "REFUSED_EVIDENCE"
	RefusedConfig   Outcome = "REFUSED_CONFIG"
	LockTimeout     Outcome = "LOCK_TIMEOUT"
	VerifyFailed    Outcome = "VERIFY_FAILED"
)

// Step is a step of a fast-forward.
type Step string

// The steps; see the package comment.
const (
	StepEvidence       Step = "evidence"
	StepCloseGate      Step = "close_gate"
	StepBarrier        Step = "barrier"
	StepAdvance        Step = "advance"
	StepJournal        Step = "journal_partition"
	StepFloorAccount   Step = "floor_account"
	StepBarrierAccount Step = "barrier_account"
	StepFloorRail      Step = "floor_rail"
	StepBarrierRail    Step = "barrier_rail"
	StepMark           Step = "outside_mark"
	StepVerify         Step = "verify"
	StepOpenGate       Step = "open_gate"
)

// Steps lists them in their order.
func Steps() []Step {
	return []Step{
		StepEvidence, StepCloseGate, StepBarrier, StepAdvance, StepJournal, StepFloorAccount, StepBarrierAccount,
		StepFloorRail, StepBarrierRail, StepMark, StepVerify, StepOpenGate,
	}
}

// Money is paydb as this package needs it; *floor.Keeper is one.
type Money interface {
	Evidence(ctx context.Context, limit paystore.Token) ([]floor.Reading, error)
	Floors(ctx context.Context) (map[floor.Point]paystore.Token, error)
	Raise(ctx context.Context, point floor.Point, to paystore.Token, change floor.Change) (floor.Raised, error)
	Barrier(ctx context.Context, point floor.Point) error
	Unfinished(ctx context.Context, limit int) ([]floor.Unfinished, int, error)
	Gate(ctx context.Context) (floor.Gate, error)
	OpenGate(ctx context.Context) (floor.Gate, error)
	Rights(ctx context.Context) ([]string, error)
}

var _ Money = (*floor.Keeper)(nil)

// Stores are what a restore looks at. The caller closes them.
type Stores struct {
	// Lock is required.
	Lock lockstore.Rewinder
	// Pay is nil when paydb cannot be reached, and PayProblem says why; NoPayments
	// tells that the deployment has none.
	Pay        Money
	PayProblem error
	NoPayments bool
	// Mark is the outside mark, nil when none is configured.
	Mark *mark.Mark
	// Old is the primary of before, when the operator names it; OldProblem why it
	// could not be read.
	Old        *lockstore.OldPrimary
	OldProblem error
}

// Options are what the operator says.
type Options struct {
	Operator, Reason string
	// Margin defaults to DefaultMargin.
	Margin lockstore.Token
	// Observed is a token that the operator knows of, 0 for none.
	Observed lockstore.Token
	// AcceptMissing names sources, or paydb or lockdb for all of one, that the
	// operator goes on without when they cannot be read.
	AcceptMissing []string
	// NoTokenAbove is the operator's word that no higher token was ever issued: what
	// stands higher was forged, and is no evidence (K-1.6). 0 takes nobody's word,
	// and a number above 2^53 refuses.
	NoTokenAbove lockstore.Token
	// Again is the operator's word that lockdb came back as a plain copy of its files, which
	// shows in no identifier: what it recorded itself may be of another life, and its
	// targets count as evidence. It is never SAFE then.
	Again bool
	// Plan is refused with *StalePlanError when the world has moved since.
	Plan *Plan
	// Progress is told each step before it begins; nil for nobody.
	Progress func(Step)
	// After is told what is written outside of the databases, as the hooks of the
	// stores are told their statements; nil for nobody.
	After owner.Hook
}

func (o Options) valid(changing bool) (Options, error) {
	if o.Margin == 0 {
		o.Margin = DefaultMargin
	}
	var errs []error
	if o.Margin < 1 || o.Margin > lockstore.MaxToken {
		errs = append(errs, fmt.Errorf("%w: margin %d is not from 1 to 2^53; leave it out for 2^32", lockstore.ErrInvalid, o.Margin))
	}
	if o.Observed != 0 {
		errs = append(errs, lockstore.ValidToken(o.Observed))
	}
	if o.NoTokenAbove != 0 {
		errs = append(errs, lockstore.ValidToken(o.NoTokenAbove))
	}
	if o.NoTokenAbove != 0 && o.Observed > o.NoTokenAbove {
		errs = append(errs, fmt.Errorf("%w: token %s was observed, and none above %s was issued; one of the two is wrong", lockstore.ErrInvalid, o.Observed, o.NoTokenAbove))
	}
	for _, source := range o.AcceptMissing {
		if !slices.Contains(Sources(), source) && source != groupPay && source != groupLock {
			errs = append(errs, fmt.Errorf("%w: there is no source %q; give %s, %s or one of %s", lockstore.ErrInvalid, source, groupPay, groupLock, strings.Join(Sources(), ", ")))
		}
	}
	if changing {
		errs = append(errs, lockstore.ValidOperator(o.Operator), lockstore.ValidReason(o.Reason))
	}
	return o, errors.Join(errs...)
}

// limit is the highest token that counts as evidence.
func (o Options) limit() lockstore.Token {
	if o.NoTokenAbove != 0 {
		return o.NoTokenAbove
	}
	return lockstore.MaxToken
}

// CutOffError is returned when a fast-forward ended between two of its steps. Mostly the
// gate is closed, grants are refused, and running it again completes it; Gate says it
// as it was read afterwards, and is nil when that could not be done.
type CutOffError struct {
	Step Step
	Gate *lockstore.Gate
	Err  error
}

func (e *CutOffError) Error() string {
	return fmt.Sprintf("fast-forward was cut off at step %s, and %s: %v", e.Step, e.grants(), e.Err)
}

// Granting tells that the gate was seen open afterwards.
func (e *CutOffError) Granting() bool { return e.Gate != nil && e.Gate.Open() }

func (e *CutOffError) grants() string {
	switch {
	case e.Granting() && e.Step == StepOpenGate:
		return "lockdb grants: that it was completed is all that was not heard"
	case e.Granting():
		return "lockdb grants, as it was seen a moment later"
	case e.Gate == nil && e.Step == StepCloseGate: // nothing has shut it before
		return "lockdb may still be granting"
	case e.Gate == nil && e.Step == StepOpenGate:
		return "lockdb may be granting already"
	default:
		return "lockdb grants nothing until it is run again"
	}
}

func (e *CutOffError) Unwrap() error { return e.Err }

// TakenOverError is returned when another fast-forward closed the gate anew while this
// one was under way. What this one has committed stands; the other completes it, or has:
// Gate is as it was read afterwards.
type TakenOverError struct {
	Step Step
	Gate lockstore.Gate
}

func (e *TakenOverError) Error() string {
	was := fmt.Sprintf("at step %s another fast-forward had taken over from this one", e.Step)
	switch g := e.Gate; {
	case g.Open():
		return was + ", and it is complete: lockdb grants"
	case g.Run != nil:
		return fmt.Sprintf("%s, begun by %s at %s: lockdb grants nothing until that one ends", was, g.Run.By, g.Run.At)
	default:
		return was + ", and lockdb grants nothing: " + (&lockstore.GateMovedError{Gate: g}).Error()
	}
}

// Unwrap lets it be met as what it is to the stores.
func (e *TakenOverError) Unwrap() error { return &lockstore.GateMovedError{Gate: e.Gate} }
