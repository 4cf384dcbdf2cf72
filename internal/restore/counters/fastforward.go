package counters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// The audit's actions.
const (
	// ActionRaise is a counter that was raised; its fence is where it stands since.
	ActionRaise = "raise_counter"
	// ActionFastForward is a run that raised counters.
	ActionFastForward = lockstore.ActionFastForward
)

// chunk is how many counters one statement raises.
const chunk = 10_000

// raisedRecord are the details of an ActionRaise record.
type raisedRecord struct {
	Run        string `json:"run_id"`
	From       int64  `json:"from"`
	Observed   int64  `json:"observed"`
	ObservedIn string `json:"observed_in"`
	Margin     int64  `json:"margin"`
	lockstore.Identity
}

// MarshalJSON keeps the identity's own from taking the place of the whole.
func (r raisedRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"run_id": r.Run, "from": r.From, "observed": r.Observed, "observed_in": r.ObservedIn, "margin": r.Margin,
		"system_identifier": text(r.SystemIdentifier), "timeline": r.Timeline,
	})
}

// FastForward raises every counter above each fence that is known of its key, in
// one transaction, and verifies it through new connections. What it refuses is an
// Outcome; errors are those of owner.
func FastForward(ctx context.Context, s *Store, opts Options) (Result, error) {
	opts, err := opts.valid(true)
	if err != nil {
		return Result{}, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return Result{}, fmt.Errorf("make a run id: %w", err)
	}
	r := &run{id: id.String(), store: s, opts: opts, result: Result{Why: []string{}, Fixes: []string{}, Blockers: []owner.Process{}, Next: []string{}}}
	r.begin(StepEvidence)
	if r.result.Plan, err = Prepare(ctx, s, opts); err != nil {
		return r.result, err
	}
	if done := r.decided(StepEvidence); done {
		return r.result, nil
	}
	r.begin(StepRaise)
	err = s.conn.Run(ctx, string(StepRaise), "raise the counters", r.raise)
	if blocked, ok := errors.AsType[*owner.BlockedError](err); ok {
		r.result.Outcome, r.result.Step, r.result.Blockers = restore.LockTimeout, StepRaise, blocked.Blockers
		r.result.Why = []string{blocked.Error()}
		r.result.Fixes = []string{"let these transactions end, or SELECT pg_cancel_backend(PID); nothing was changed. Never terminate one of SyncGuard's: that ends its whole process"}
		return r.result, nil
	}
	if err != nil && !errors.Is(err, errDecided) {
		return r.result, err
	}
	if done := r.decided(StepRaise); done {
		return r.result, nil
	}
	return r.result, r.verify(ctx)
}

// run is one fast-forward.
type run struct {
	id     string
	store  *Store
	opts   Options
	result Result
}

func (r *run) begin(s restore.Step) {
	if r.opts.Progress != nil {
		r.opts.Progress(s)
	}
}

// decided takes over what the plan says and tells whether that is all there is to it.
func (r *run) decided(at restore.Step) bool {
	p := r.result.Plan
	r.result.Outcome, r.result.Why, r.result.Fixes = p.Outcome, p.Why, p.Fixes
	if p.Outcome != restore.Advanced && p.Outcome != restore.Safe {
		r.result.Step = at
	}
	return p.Outcome != restore.Advanced
}

// errDecided ends the transaction when there is nothing to raise after all.
var errDecided = errors.New("nothing is to be raised")

// raise is the one transaction. What counts is what it reads itself, behind its lock.
func (r *run) raise(ctx context.Context, tx *owner.Tx) error {
	if _, err := tx.Do(ctx, "lock", r.store.names.In(lockQuery)); err != nil {
		return err
	}
	seen, err := r.store.look(ctx, tx)
	if err != nil {
		return err
	}
	r.result.Plan = planOf(seen, r.opts)
	if r.result.Plan.Outcome != restore.Advanced {
		return errDecided
	}
	raise := []Key{}
	for _, k := range r.result.Plan.Keys {
		if k.State == Raise {
			raise = append(raise, k)
		}
	}
	for from := 0; from < len(raise); from += chunk {
		if err := r.raiseSome(ctx, tx, raise[from:min(from+chunk, len(raise))]); err != nil {
			return err
		}
	}
	details, err := json.Marshal(map[string]any{
		"run_id": r.id, "raised": len(raise), "behind": r.result.Plan.Behind, "margin": r.opts.Margin,
		"system_identifier": text(seen.identity.SystemIdentifier), "timeline": seen.identity.Timeline,
	})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	r.result.Run, r.result.Raised = r.id, len(raise)
	_, err = tx.Do(ctx, "record the run", r.store.names.In(recordQuery), r.opts.Operator, r.opts.Reason,
		[]string{ActionFastForward}, []string{""}, []int64{0}, []string{string(details)})
	return err
}

func (r *run) raiseSome(ctx context.Context, tx *owner.Tx, some []Key) error {
	var fenceKeys, keys, actions, details []string
	var fences []int64
	for _, k := range some {
		detail, err := json.Marshal(raisedRecord{r.id, k.Counter, k.Observed, k.ObservedIn, r.opts.Margin, r.result.Plan.Identity})
		if err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
		fenceKeys, keys, fences = append(fenceKeys, k.FenceKey), append(keys, k.Key), append(fences, k.Target)
		actions, details = append(actions, ActionRaise), append(details, string(detail))
	}
	n, err := tx.Do(ctx, "raise", r.store.names.In(raiseQuery), fenceKeys, fences, keys)
	if err != nil {
		return err
	}
	if n != int64(len(some)) {
		return fmt.Errorf("raised %d of %d counters", n, len(some))
	}
	_, err = tx.Do(ctx, "record", r.store.names.In(recordQuery), r.opts.Operator, r.opts.Reason, actions, keys, fences, details)
	return err
}

// verify looks with new connections at what was committed.
func (r *run) verify(ctx context.Context) error {
	r.begin(StepVerify)
	fresh, err := r.store.fresh(ctx)
	if err != nil {
		return err
	}
	defer fresh.Close(ctx)
	found, err := Verify(ctx, fresh, r.opts)
	if err != nil {
		return err
	}
	r.result.Verification = &found
	r.result.Next = []string{"take a fresh backup now: a second restore of the old one needs this again"}
	if held := r.result.Plan.Held; held > 0 {
		r.result.Next = append(r.result.Next, plural(held, "restored lock")+" still counts as held, until its lease ends or dlockctl revoke ends it")
	}
	if found.Safe {
		return nil
	}
	r.result.Outcome, r.result.Step, r.result.Why, r.result.Fixes = restore.VerifyFailed, StepVerify, []string{}, []string{}
	for _, f := range found.Findings {
		r.result.Why, r.result.Fixes = append(r.result.Why, f.What), append(r.result.Fixes, f.Fix)
	}
	return nil
}
