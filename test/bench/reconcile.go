package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// reconcileRounds is how often each run is measured: one takes up to a minute.
const reconcileRounds = 3

// maxClientMiB is what a run may need in memory, however large the ledger is.
const maxClientMiB = 150

// ledgers are the sizes, in legs: an account has ten payouts, of which one in
// eighteen was never posted.
func ledgers(dbs *databases) []*world {
	return []*world{
		{dbs: dbs, name: "1m", size: plant.Params{Payouts: 530_000, Accounts: 53_000, Seed: 1}},
		{dbs: dbs, name: "10m", size: plant.Params{Payouts: 5_320_000, Accounts: 500_000, Seed: 2}},
	}
}

// reconciling makes the contenders of a run of reconcile on each ledger.
type reconciling struct {
	programs *programs
	worlds   []*world
	say      func(string)
}

func (r *reconciling) groups(rounds int) []group {
	var groups []group
	smaller := ""
	for _, w := range r.worlds {
		groups = append(groups, group{
			name: "reconcile " + w.name, rounds: min(rounds, reconcileRounds), prepare: r.prepare,
			contenders: r.contenders(w, smaller),
		})
		smaller = w.name
	}
	return groups
}

func (r *reconciling) prepare(ctx context.Context) error {
	return r.programs.build(ctx, program{".", "./auditor", "auditor"}, program{".", "./peak", "peak"}, program{root, "./cmd/dlockctl", "dlockctl"})
}

// contenders compare a run with the bare statements, and its client with that on the
// smaller ledger: memory must not grow, and processor time as the rows do.
func (r *reconciling) contenders(w *world, smaller string) []contender {
	against := func(what string) string {
		if smaller == "" {
			return ""
		}
		return what + smaller
	}
	id, legs := "reconcile-", " on "+w.name+" legs"
	return []contender{
		r.timed(w, series{id + "bare-" + w.name, "the rules' statements, rows thrown away" + legs, "ms", ""}, w.bare),
		{
			series: []series{
				{id + w.name, "reconcile, the whole catalogue" + legs, "ms", id + "bare-" + w.name},
				{id + "cpu-" + w.name, "reconcile: its own processor time" + legs, "ms", against(id + "cpu-")},
				{id + "memory-" + w.name, "reconcile: peak memory" + legs, "MiB", against(id + "memory-")},
			},
			measure: func(ctx context.Context) ([]float64, error) { return r.audit(ctx, w) },
		},
		r.timed(w, series{id + "aggregate-" + w.name, "the balance rule as one statement" + legs, "ms", ""}, w.aggregate),
		{
			series: []series{{id + "balance-" + w.name, "reconcile --rule A01" + legs, "ms", id + "aggregate-" + w.name}},
			measure: func(ctx context.Context) ([]float64, error) {
				values, err := r.audit(ctx, w, "A01")
				if err != nil {
					return nil, err
				}
				return values[:1], nil
			},
		},
		r.cancelled(w),
	}
}

func (r *reconciling) timed(w *world, s series, do func(context.Context) error) contender {
	return contender{series: []series{s}, measure: func(ctx context.Context) ([]float64, error) {
		if err := r.enter(ctx, w); err != nil {
			return nil, err
		}
		start := time.Now()
		err := do(ctx)
		return []float64{milliseconds(time.Since(start))}, err
	}}
}

// enter makes the world, and removes the others: a sitting needs the disk once.
func (r *reconciling) enter(ctx context.Context, w *world) error {
	if w.made {
		return nil
	}
	for _, other := range r.worlds {
		if other == w {
			continue
		}
		if err := other.unmake(ctx); err != nil {
			return err
		}
	}
	return w.make(ctx, r.say)
}

// audit runs reconcile as a process of its own and returns its time, its processor
// time and its peak of memory. It fails when a planted break was not found, or
// something else was.
func (r *reconciling) audit(ctx context.Context, w *world, rules ...string) ([]float64, error) {
	if err := r.enter(ctx, w); err != nil {
		return nil, err
	}
	env := []string{"PAY_DSN=" + w.payDSN, "LOCK_DSN=" + w.lockDSN}
	used, err := r.programs.weigh(ctx, env, r.programs.path("auditor"), rules...)
	if err != nil {
		return nil, err
	}
	var report reconcile.Report
	if err := json.Unmarshal([]byte(used.out), &report); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if err := checkReport(report, w.faults, rules...); err != nil {
		return nil, err
	}
	if used.peakMiB > maxClientMiB {
		return nil, fmt.Errorf("the client needed %.0f MiB on %s legs, and may need %d", used.peakMiB, w.name, maxClientMiB)
	}
	return []float64{milliseconds(used.wall), milliseconds(used.cpu), used.peakMiB}, nil
}
