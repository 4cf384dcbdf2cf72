package counters

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/restore"
)

// mostFindings bounds the findings that are told; all are counted.
const mostFindings = 100

// runFastForward is what puts most findings right.
const runFastForward = "dlockctl restore fast-forward --reason TEXT"

// Verify says whether a counter, as it is, could issue a fence that is known. It
// changes nothing.
func Verify(ctx context.Context, s *Store, opts Options) (Verification, error) {
	opts, err := opts.valid(false)
	if err != nil {
		return Verification{}, err
	}
	var seen sight
	err = s.conn.Read(ctx, "look at the counters", func(tx pgx.Tx) (err error) {
		seen, err = s.look(ctx, tx)
		return err
	})
	if err != nil {
		return Verification{}, err
	}
	v := Verification{Findings: []restore.Finding{}}
	for _, k := range seen.assess(opts) {
		v.Keys++
		v.judge(k)
	}
	v.Safe = v.FindingsTotal == 0
	return v, nil
}

func (v *Verification) add(id, fix, format string, args ...any) {
	v.FindingsTotal++
	if len(v.Findings) < mostFindings {
		v.Findings = append(v.Findings, restore.Finding{ID: id, What: fmt.Sprintf(format, args...), Fix: fix})
	}
}

// judge says what is wrong with one key: counter_missing, counter_behind,
// counter_negative, fence_malformed, fence_forged. One that is exhausted or foreign is
// no danger of issuing a fence twice; doctor and the plan tell it.
func (v *Verification) judge(k Key) {
	switch {
	case k.State == Foreign:
	case k.State == Forged:
		v.add("fence_forged", "dlockctl restore plan", "lock %q: fence %d, in %s, is above %d, the last one that is ever issued", k.Key, k.Observed, k.ObservedIn, limit)
	case k.State == Unreadable:
		v.add("fence_malformed", "--observed KEY=N says which was issued", "lock %q: the fence %q in its row is no number of 15 digits from 1", k.Key, k.LockFence)
	case k.Counter < 0:
		v.add("counter_negative", runFastForward, "lock %q: the counter stands at %d, below 0", k.Key, k.Counter)
	case !k.HasCounter:
		v.add("counter_missing", runFastForward, "lock %q: there is no counter, and fence %d is known from %s: it would begin at 1", k.Key, k.Observed, k.ObservedIn)
	case k.Behind:
		v.add("counter_behind", runFastForward, "lock %q: the counter stands at %d, and fence %d is known from %s", k.Key, k.Counter, k.Observed, k.ObservedIn)
	}
}
