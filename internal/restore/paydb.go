package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// PayRepair is what RepairPaydb did.
type PayRepair struct {
	// Restored tells that paydb was not where its gate was opened.
	Restored bool       `json:"restored"`
	Gate     floor.Gate `json:"gate"`
	// To is lockdb's last token, up to which both floors refuse everything.
	To     lockstore.Token `json:"to_token"`
	Floors []floor.Raised  `json:"floors"`
	// Opened tells that no payout was left to be resolved.
	Opened bool     `json:"opened"`
	Next   []string `json:"next"`
}

// ErrLockdbFirst is returned by RepairPaydb while lockdb itself is not known to be
// safe: its last token would be no floor.
var ErrLockdbFirst = errors.New("lockdb comes first: it may have been set back, and its last token is no floor")

// ErrNoPaydb is returned by RepairPaydb without a paydb.
var ErrNoPaydb = errors.New("paydb is not configured or cannot be reached")

// RepairPaydb brings a restored paydb to where nothing is paid twice (K-7.9): the
// floors to lockdb's last token, for a restored floor has forgotten who was
// refused; then the gate, once each payout that came back is final or resolved
// against the rail's record, which `payout resolve --from-rail` does. It may be
// run again as often as one likes.
func RepairPaydb(ctx context.Context, stores Stores, opts Options) (PayRepair, error) {
	opts, err := opts.valid(true)
	if err != nil {
		return PayRepair{}, err
	}
	if stores.Pay == nil {
		return PayRepair{}, errors.Join(ErrNoPaydb, stores.PayProblem)
	}
	last, err := stores.lastOfSafe(ctx, opts)
	if err != nil {
		return PayRepair{}, err
	}
	repair := PayRepair{To: last, Floors: []floor.Raised{}, Next: []string{}}
	for _, point := range []floor.Point{floor.Account, floor.Rail} {
		raised, err := stores.Pay.Raise(ctx, point, paystore.Token(last), floor.Change{Operator: opts.Operator, Reason: opts.Reason})
		if err == nil {
			repair.Floors = append(repair.Floors, raised)
			err = stores.Pay.Barrier(ctx, point)
		}
		if err != nil {
			return repair, err
		}
	}
	if repair.Gate, err = stores.Pay.Gate(ctx); err != nil {
		return repair, err
	}
	repair.Restored = !repair.Gate.Here
	if repair.Gate.Open() {
		return repair, nil
	}
	opened, err := stores.Pay.OpenGate(ctx)
	if unresolved, ok := errors.AsType[*floor.UnresolvedError](err); ok {
		repair.Gate.Unresolved = unresolved.Payouts
		repair.Next = append(repair.Next, fmt.Sprintf("%d payouts are neither final nor resolved; ask the rail, then run this again: %s", unresolved.Payouts, runResolve))
		return repair, nil
	}
	if err != nil {
		return repair, err
	}
	repair.Gate, repair.Opened = opened, true
	repair.Next = append(repair.Next, "take a fresh backup of paydb now", "look for payments of the rail without a payout: dlockctl reconcile --rail-statement FILE")
	return repair, nil
}

// lastOfSafe is the token that lockdb issued last. It returns ErrLockdbFirst unless
// lockdb is where its gate was opened and nobody knows of a higher token: a plain copy
// of its files shows by the second sign alone (K-7.6).
func (s Stores) lastOfSafe(ctx context.Context, opts Options) (lockstore.Token, error) {
	gate, err := s.Lock.Gate(ctx)
	if err != nil {
		return 0, err
	}
	if !gate.Here || gate.Run != nil {
		return 0, fmt.Errorf("%w: its gate is not open where it is", ErrLockdbFirst)
	}
	opts.NoTokenAbove = lockstore.MaxToken - leastHeadroom // no fast-forward passes what stands higher: it was forged
	outside, shown, err := s.outside(ctx, opts)
	if err != nil {
		return 0, err
	}
	view, err := lookAt(ctx, s.Lock, opts.limit())
	if err != nil {
		return 0, err
	}
	last := view.Source.Last
	for _, e := range slices.Concat(outside, view.Evidence) {
		if e.Source == sourceMark { // its ceiling is ahead by design
			e.Value = shown
		}
		if e.Value > last {
			return 0, fmt.Errorf("%w: %s has token %s, above the last one issued here, %s", ErrLockdbFirst, e.Source, e.Value, last)
		}
	}
	for _, reached := range view.FastForwards.Targets {
		if reached > last {
			return 0, fmt.Errorf("%w: a fast-forward to %s was recorded here, above the token last issued, %s", ErrLockdbFirst, reached, last)
		}
	}
	return last, nil
}
