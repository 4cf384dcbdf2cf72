package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/dlockctl/dlockctl/test/bench/report"
)

// series is one line of the table.
type series struct {
	id, title, unit string
	// reference is the id of the series to compare with; empty for none.
	reference string
}

// contender measures once, a value for each of its series.
type contender struct {
	series  []series
	measure func(ctx context.Context) ([]float64, error)
}

// group is contenders that take turns.
type group struct {
	name       string
	rounds     int
	contenders []contender
	// prepare, when set, is called before anything is measured: what cannot be
	// should be known at once.
	prepare func(ctx context.Context) error
}

// sit makes the databases, lets the chosen contenders take turns, and removes
// the databases again.
func sit(ctx context.Context, opts options, only *regexp.Regexp, progress io.Writer) (sitting report.Sitting, err error) {
	dir, err := makeFolder(opts.dir)
	if err != nil {
		return sitting, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tools, err := findTools(ctx)
	if err != nil {
		return sitting, err
	}
	say := func(line string) { _, _ = fmt.Fprintln(progress, line) } // nobody is left to tell
	dbs, err := startDatabases(ctx, dir, tools.pgBin, say)
	if err != nil {
		return sitting, err
	}
	defer func() { err = errors.Join(err, dbs.destroy(ctx)) }()

	groups, err := newGroups(opts, dbs, tools, dir, say)
	if err != nil {
		return sitting, err
	}
	if groups, err = choose(groups, only); err != nil {
		return sitting, err
	}
	for _, g := range groups {
		if g.prepare == nil {
			continue
		}
		if err := g.prepare(ctx); err != nil {
			return sitting, err
		}
	}
	for _, g := range groups {
		results, err := g.run(ctx, say)
		if err != nil {
			return sitting, err
		}
		sitting.Results = append(sitting.Results, results...)
	}
	sitting.MadeAt, sitting.Rounds, sitting.Seconds, sitting.Pairs = time.Now().UTC(), opts.rounds, opts.seconds, opts.pairs
	sitting.Machine = report.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		PostgreSQL: dbs.version, PGBench: tools.pgbenchVersion, MemoryMiB: memoryMiB(), SharedBuffers: dbs.sharedBuffers,
	}
	return sitting, report.Summarize(sitting.Results)
}

func newGroups(opts options, dbs *databases, tools tools, dir string, say func(string)) ([]group, error) {
	statements, err := readStatements()
	if err != nil {
		return nil, err
	}
	window := time.Duration(opts.seconds) * time.Second
	bench := bench{pgbench: tools.pgbench, dbs: dbs, statements: statements, dir: dir, window: window}
	rates, err := bench.contenders()
	if err != nil {
		return nil, err
	}
	built := newPrograms(dir)
	p := &processes{dbs: dbs, statements: statements, psql: tools.psql, programs: built}
	lock := &servers{bench: &bench, programs: built}
	pay := &paying{bench: &bench, programs: built}
	fail := &failOvers{dir: dir, pgBin: tools.pgBin, programs: built}
	r := &reconciling{programs: built, worlds: ledgers(dbs), say: say}
	return append([]group{
		// lock-server takes turns with those that it is compared with.
		{name: "rates", rounds: opts.rounds, contenders: append(rates, lock.contenders()...), prepare: lock.prepare},
		{name: "hand-off", rounds: opts.rounds, contenders: []contender{lock.handOff()}, prepare: lock.prepare},
		pay.group(opts.rounds),
		{name: "backends", rounds: opts.rounds, contenders: bench.backends()},
		fail.group(opts.rounds),
		{name: "processes", rounds: opts.pairs, contenders: p.timed(), prepare: p.prepare},
		{name: "memory", rounds: opts.rounds, contenders: p.weighed(), prepare: p.prepare},
	}, r.groups(opts.rounds)...), nil
}

// choose keeps the contenders of which a series matches, and those that they
// refer to.
func choose(groups []group, only *regexp.Regexp) ([]group, error) {
	wanted := map[string]bool{}
	for _, g := range groups {
		for _, c := range g.contenders {
			if slices.ContainsFunc(c.series, func(s series) bool { return only.MatchString(s.id) }) {
				for _, s := range c.series {
					wanted[s.id], wanted[s.reference] = true, true
				}
			}
		}
	}
	var chosen []group
	for _, g := range groups {
		g.contenders = slices.DeleteFunc(slices.Clone(g.contenders), func(c contender) bool {
			return !slices.ContainsFunc(c.series, func(s series) bool { return wanted[s.id] })
		})
		if len(g.contenders) > 0 {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %q matches no series; run without it to see their ids", only)
	}
	return chosen, nil
}

// run lets the contenders take turns; each round begins with another one, so
// that what comes and goes on the machine meets all alike.
func (g group) run(ctx context.Context, say func(string)) ([]report.Result, error) {
	var results []report.Result
	first := make([]int, len(g.contenders)) // where each contender's results begin
	for i, c := range g.contenders {
		first[i] = len(results)
		for _, s := range c.series {
			results = append(results, report.Result{ID: s.id, Title: s.title, Unit: s.unit, Reference: s.reference})
		}
	}
	for round := range g.rounds {
		if g.rounds <= 10 || (round+1)%10 == 0 {
			say(fmt.Sprintf("%s: round %d of %d", g.name, round+1, g.rounds))
		}
		for turn := range g.contenders {
			i := (round + turn) % len(g.contenders)
			c := g.contenders[i]
			values, err := c.measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", c.series[0].id, err)
			}
			for n, value := range values {
				r := &results[first[i]+n]
				r.Runs = append(r.Runs, value)
			}
		}
	}
	return results, nil
}
