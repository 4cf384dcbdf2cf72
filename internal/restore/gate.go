package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// GateOptions say who freezes or thaws, and why.
type GateOptions struct{ Operator, Reason string }

// GateResult is the gate as it is left.
type GateResult struct {
	Gate lockstore.Gate `json:"gate"`
	Open bool           `json:"open"`
	// Changed is false when it was as asked already.
	Changed bool `json:"changed"`
	// Blockers are grants that began before and have not ended: frozen, but these
	// may still be granted.
	Blockers []owner.Process `json:"blockers"`
}

// ThawRefusedError is returned by Thaw: the gate is shut for another reason than a
// freeze. Nothing was changed.
type ThawRefusedError struct {
	Gate lockstore.Gate
	// Why it is shut, and Command what opens it.
	Why, Command string
}

func (e *ThawRefusedError) Error() string { return "thaw lockdb: " + e.Why }

// Hint is the command to run.
func (e *ThawRefusedError) Hint() string { return "run: " + e.Command }

// Freeze closes the gate (K-7.4): no lock is granted until it is thawed; renewing
// and releasing go on. It waits for grants under way, and names those it could not
// wait for.
func Freeze(ctx context.Context, lock lockstore.Rewinder, opts GateOptions) (GateResult, error) {
	before, err := lock.Gate(ctx)
	if err != nil {
		return GateResult{}, err
	}
	gate, err := lock.CloseGate(ctx, lockstore.GateChange{Operator: opts.Operator, Reason: opts.Reason})
	if err != nil {
		return GateResult{}, err
	}
	result := GateResult{Gate: gate, Open: gate.Open(), Changed: gate.ClosedBy != "" && before.ClosedBy == "", Blockers: []owner.Process{}}
	err = lock.Barrier(ctx)
	if blocked, ok := errors.AsType[*owner.BlockedError](err); ok {
		result.Blockers = blocked.Blockers
		return result, nil
	}
	return result, err
}

// Thaw opens a gate that was frozen. It returns *ThawRefusedError for one that is
// shut because lockdb was set back, or because a fast-forward has not ended: only
// a fast-forward opens that.
func Thaw(ctx context.Context, lock lockstore.Rewinder, opts GateOptions) (GateResult, error) {
	gate, err := lock.Gate(ctx)
	if err != nil {
		return GateResult{}, err
	}
	switch {
	case !gate.Present:
		return GateResult{}, &ThawRefusedError{gate, "the gate's row is gone", runFastForward}
	case gate.Run != nil:
		return GateResult{}, &ThawRefusedError{gate, fmt.Sprintf("a fast-forward that %s began at %s is under way or was cut off", gate.Run.By, gate.Run.At), runFastForward}
	case !gate.Here:
		return GateResult{}, &ThawRefusedError{gate, "lockdb was restored, promoted or copied since its gate was opened", "dlockctl restore plan"}
	case gate.ClosedBy == "":
		return GateResult{Gate: gate, Open: true, Blockers: []owner.Process{}}, nil
	}
	gate, err = lock.OpenGate(ctx, lockstore.GateChange{Operator: opts.Operator, Reason: opts.Reason})
	if err != nil {
		return GateResult{}, err
	}
	return GateResult{Gate: gate, Open: gate.Open(), Changed: true, Blockers: []owner.Process{}}, nil
}
