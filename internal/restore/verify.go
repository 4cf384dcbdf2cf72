package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// Verification says whether lockdb, as it is, can issue no token twice and let no
// stale holder write.
type Verification struct {
	Safe bool            `json:"safe"`
	Last lockstore.Token `json:"last"`
	// Reached is the target that was recorded last by this instance and timeline, 0
	// for none.
	Reached  lockstore.Token      `json:"reached"`
	Findings []Finding            `json:"findings"`
	Evidence []lockstore.Evidence `json:"evidence"`
}

// Finding is one thing that is not safe.
type Finding struct {
	// ID is stable: gate_closed, gate_moved, token_source, evidence_missing,
	// evidence_above, sequence_low, forged, lock_alive, floor_low, floor_unknown,
	// mark_low, mark_ahead.
	ID   string `json:"id"`
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// Verify proves the present state safe, or says why it is not. It changes nothing.
func Verify(ctx context.Context, stores Stores, opts Options) (Verification, error) {
	opts, err := opts.valid(false)
	if err != nil {
		return Verification{}, err
	}
	return verify(ctx, stores, opts, "")
}

// verify is for a run that holds the gate, or for nobody: then the gate must be
// open.
func verify(ctx context.Context, stores Stores, opts Options, run string) (Verification, error) {
	outside, shown, err := stores.outside(ctx, opts)
	if err != nil {
		return Verification{}, err
	}
	view, err := lookAt(ctx, stores.Lock, opts.limit())
	if err != nil {
		return Verification{}, err
	}
	traffic, err := stores.Lock.Traffic(ctx)
	if err != nil {
		return Verification{}, err
	}
	a := assess(slices.Concat(outside, view.Evidence), view.FastForwards.Targets, opts)
	v := &Verification{Last: view.Source.Last, Reached: a.reached, Findings: []Finding{}, Evidence: a.evidence}
	v.gate(view.Gate, run)
	for _, p := range view.Source.Problems {
		v.add("token_source", p.Fix, "%s (%s)", p.Problem, p.Clause)
	}
	v.evidence(a, view.Source.Newest())
	if v.Last < a.reached {
		v.add("sequence_low", runFastForward, "a fast-forward to %s was recorded here, and the token last issued is %s: the sequence was set back", a.reached, v.Last)
	}
	if shown > v.Last {
		v.add("mark_ahead", "dlockctl restore plan", "the outside mark saw token %s, above the last one issued here, %s", shown, v.Last)
	}
	if traffic.LowestLock != 0 && traffic.LowestLock <= a.reached {
		v.add("lock_alive", runFastForward, "a lock with token %s, from before the fast-forward to %s, stands", traffic.LowestLock, a.reached)
	}
	if err := v.payments(ctx, stores, run); err != nil {
		return Verification{}, err
	}
	v.Safe = len(v.Findings) == 0
	return *v, nil
}

func (v *Verification) add(id, fix, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{ID: id, What: fmt.Sprintf(format, args...), Fix: fix})
}

func (v *Verification) gate(gate lockstore.Gate, run string) {
	switch {
	case run != "" && (gate.Run == nil || gate.Run.ID != run):
		v.add("gate_moved", runFastForward, "somebody else opened the gate or closed it anew")
	case run != "":
	case !gate.Present:
		v.add("gate_closed", runFastForward, "the gate's row is gone")
	case gate.Run != nil:
		v.add("gate_closed", runFastForward, "a fast-forward that %s began at %s was cut off", gate.Run.By, gate.Run.At)
	case !gate.Here:
		v.add("gate_closed", "dlockctl restore plan", "lockdb was restored, promoted or copied since its gate was opened on instance %d, timeline %d", gate.OpenedOn.SystemIdentifier, gate.OpenedOn.Timeline)
	case gate.ClosedBy != "":
		v.add("gate_closed", runThaw, "lockdb is frozen by %s: %s", gate.ClosedBy, gate.Reason)
	}
}

// evidence compares what others know with the token last issued: one above it was
// issued in another life of this database.
func (v *Verification) evidence(a assessment, newest lockstore.Token) {
	for _, e := range a.evidence {
		switch {
		case e.Status == lockstore.EvidenceUnavailable:
			v.add("evidence_missing", "--accept-missing "+e.Source, "%s could not be read: %s", e.Source, e.Reason)
		case e.Source == sourceMark && e.Status == lockstore.EvidenceRead:
			// Its ceiling is ahead of the grants by design; below them it covers nothing.
			if e.Value < newest {
				v.add("mark_low", runFastForward, "the outside mark ends at %s, below the token last issued, %s", e.Value, newest)
			}
		case !e.Own && e.Value > v.Last:
			v.add("evidence_above", "dlockctl restore plan", "%s has token %s, above the last one issued here, %s", e.Source, e.Value, v.Last)
		}
	}
	for _, forged := range a.forged {
		v.add("forged", "dlockctl restore plan", "%s", forged)
	}
}

// payments looks at the barrier against those from before (K-7.8), and at paydb's
// own gate.
func (v *Verification) payments(ctx context.Context, stores Stores, run string) error {
	switch {
	case stores.NoPayments || v.Reached == 0:
		return nil
	case stores.Pay == nil:
		if run == "" { // a run says itself what it has left undone
			v.add("floor_unknown", "dlockctl restore verify", "the floors of paydb could not be read: a holder from before the fast-forward to %s might still write", v.Reached)
		}
		return nil
	}
	floors, err := stores.Pay.Floors(ctx)
	if err != nil {
		return err
	}
	for _, point := range []floor.Point{floor.Account, floor.Rail} {
		if lockstore.Token(floors[point]) < v.Reached {
			v.add("floor_low", runFastForward, "the floor of %s is %d, below the fast-forward to %s: a holder from before it could still write", point, floors[point], v.Reached)
		}
	}
	return nil
}
