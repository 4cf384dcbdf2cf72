package main

import (
	"context"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
	"github.com/dlockctl/dlockctl/test/bench/report"
)

func allGroups(t *testing.T) []group {
	t.Helper()

	opts, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := newGroups(opts, &databases{}, tools{}, t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

func ids(groups []group) []string {
	var ids []string
	for _, g := range groups {
		for _, c := range g.contenders {
			for _, s := range c.series {
				ids = append(ids, s.id)
			}
		}
	}
	return ids
}

// A target that names a series wrongly, or that asks for more runs than `make
// bench` makes, could never be met.
// Mutation: misspell an id of targets.json, or make its runs 51.
func TestTargetsNameSeriesThatAreMeasured(t *testing.T) {
	t.Parallel()

	targets, err := report.ReadTargets(targetsFile)
	if err != nil {
		t.Fatal(err)
	}
	rounds, references := map[string]int{}, map[string]string{}
	for _, g := range allGroups(t) {
		for _, c := range g.contenders {
			for _, s := range c.series {
				if _, twice := rounds[s.id]; twice {
					t.Errorf("two series are called %s", s.id)
				}
				rounds[s.id], references[s.id] = g.rounds, s.reference
			}
		}
	}
	for id, reference := range references {
		if reference != "" && rounds[reference] == 0 {
			t.Errorf("%s refers to %s, which is not measured", id, reference)
		}
	}
	for _, target := range targets {
		if references[target.ID] != target.Against {
			t.Errorf("%s: the table compares with %q", target, references[target.ID])
		}
		if rounds[target.ID] < target.Runs {
			t.Errorf("%s: needs %d runs, and `make bench` makes %d", target, target.Runs, rounds[target.ID])
		}
	}
}

// Mutation: leave the reference out in choose.
func TestChooseKeepsReferences(t *testing.T) {
	t.Parallel()

	for pattern, want := range map[string][]string{
		"^store-1$":         {"pgx-1", "store-1"},
		"^pgbench-16$":      {"pgbench-16", "pgbench-16-cpu"},
		"^dlockctl-version": {"hello", "dlockctl-version", "hello-memory", "dlockctl-version-memory"},
	} {
		chosen, err := choose(allGroups(t), regexp.MustCompile(pattern))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ids(chosen)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
	if all, err := choose(allGroups(t), regexp.MustCompile("")); err != nil || len(ids(all)) != len(ids(allGroups(t))) {
		t.Errorf("without a pattern: %v, %v", ids(all), err)
	}
	if _, err := choose(allGroups(t), regexp.MustCompile("nothing")); err == nil {
		t.Error("a pattern that matches nothing: no error")
	}
}

// Mutation: run all rounds of one contender before the next, or credit a value
// to another series.
func TestContendersTakeTurns(t *testing.T) {
	t.Parallel()

	var turns []string
	measure := func(name string, values ...float64) func(context.Context) ([]float64, error) {
		return func(context.Context) ([]float64, error) {
			turns = append(turns, name)
			return values, nil
		}
	}
	g := group{name: "g", rounds: 2, contenders: []contender{
		{[]series{{"a", "A", "ms", ""}, {"b", "B", "ms", ""}}, measure("ab", 1, 2)},
		{[]series{{"c", "C", "MiB", "a"}}, measure("c", 3)},
	}}
	results, err := g.run(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ab", "c", "c", "ab"}, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	want := []report.Result{
		{ID: "a", Title: "A", Unit: "ms", Runs: []float64{1, 1}},
		{ID: "b", Title: "B", Unit: "ms", Runs: []float64{2, 2}},
		{ID: "c", Title: "C", Unit: "MiB", Runs: []float64{3, 3}, Reference: "a"},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestCheckNamesEachMissedTarget(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	sitting := report.Sitting{MadeAt: time.Now(), Results: []report.Result{{ID: "slow", Runs: []float64{1}}, {ID: "ref", Runs: []float64{2}}}}
	if err := sitting.Write(filepath.Join(dir, "r.json")); err != nil {
		t.Fatal(err)
	}
	met := report.Target{ID: "slow", Op: ">=", Ratio: 0.5, Against: "ref", Runs: 1}
	var out strings.Builder
	if err := check(&out, []report.Target{met}, dir); err != nil {
		t.Errorf("a target met: %v", err)
	}
	err := check(&out, []report.Target{
		{ID: "slow", Op: ">=", Ratio: 0.9, Against: "ref", Runs: 1},
		met,
		{ID: "absent", Op: "<=", Ratio: 1.5, Against: "ref", Runs: 1},
	}, dir)
	if err == nil {
		t.Fatal("two targets missed: no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "missed slow >= 0.90 × ref") || !strings.HasPrefix(lines[1], "missed absent <= 1.50 × ref") {
		t.Errorf("the error is:\n%v", err)
	}
}

// The references run what the store keeps, whatever that is.
func TestStatements(t *testing.T) {
	t.Parallel()

	s, err := readStatements()
	if err != nil {
		t.Fatal(err)
	}
	acquire, err := numbered(s.acquire, "key", "owner_id", "session_id", "ttl_seconds")
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(acquire, ":;") || strings.Contains(acquire, "--") || strings.Count(acquire, "$4") != 2 {
		t.Errorf("the acquire for the driver:\n%s", acquire)
	}
	if _, err := numbered(s.acquire, "key"); err == nil || !strings.Contains(err.Error(), ":owner_id") {
		t.Errorf("a parameter without a value: %v", err)
	}
	release, err := literal(s.release, "k-1", "42")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(release, "'k-1'") || !strings.Contains(release, "= 42") {
		t.Errorf("the release for psql:\n%s", release)
	}
	script, err := s.pgbenchScript()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(script, `expires_at \gset`) || !strings.Contains(script, "= :fencing_token") || strings.Contains(script, ":key") {
		t.Errorf("the script for pgbench:\n%s", script)
	}
}

// Mutation: do not skip the warm-up, or take the last report in.
func TestReadProgress(t *testing.T) {
	t.Parallel()

	const text = "progress: 1.0 s, 10.0 tps, lat 1.2 ms stddev 0.4, 0 failed\n" +
		"progress: 2.0 s, 100.5 tps, lat 1.2 ms stddev 0.4, 0 failed\n" +
		"progress: 3.0 s, 200.5 tps, lat 1.2 ms stddev 0.4, 0 failed\n" +
		"progress: 3.2 s, 9000.0 tps, lat 1.2 ms stddev 0.4, 0 failed\n"
	got, err := readProgress(text, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got != 150.5 {
		t.Errorf("the rate is %v, want 150.5", got)
	}
	if _, err := readProgress(text, 1, 4); err == nil {
		t.Error("too few reports: no error")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"-rounds", "0"}, {"-seconds", "0"}, {"-pairs", "-1"}, {"extra"}, {"-unknown"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// Mutation: count the workers' pairs without waiting for them.
func TestLoadCountsWhatIsFinished(t *testing.T) {
	t.Parallel()

	pair := func(ctx context.Context, _ int) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
			return nil
		}
	}
	perSecond, err := load(t.Context(), subject{pair: pair}, 2, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// Each pair takes at least its 50 ms, so two workers never finish more than 40
	// a second, however late the machine wakes them.
	if perSecond <= 0 || perSecond > 40 {
		t.Errorf("%v pairs a second, want more than 0 and at most 40", perSecond)
	}
	broken := func(context.Context, int) error { return io.ErrUnexpectedEOF }
	if _, err := load(t.Context(), subject{pair: broken}, 2, time.Minute); err == nil {
		t.Error("a pair that fails: no error")
	}
}

// A finding is explained by a break of its class on its rows; one that nobody planted,
// one that is missing, and a run that is not complete fail the benchmark.
// Mutation: leave a case out of checkReport, or the account out of explains.
func TestCheckReport(t *testing.T) {
	t.Parallel()

	planted := []plant.Fault{{Class: "A05", Token: 7, AccountID: "a", PayoutID: "p"}, {Class: "B06", Token: 9}}
	both := []reconcile.Finding{{Class: "A05", AccountID: "a", PayoutID: "p"}, {Class: "B06", AccountID: "b", Suspects: []int64{9}}}
	for name, c := range map[string]struct {
		report reconcile.Report
		rules  []string
		err    string
	}{
		"all of it":      {reconcile.Report{Complete: true, Findings: both}, nil, ""},
		"a leg each":     {reconcile.Report{Complete: true, Findings: append(both, both[0])}, nil, ""},
		"one rule":       {reconcile.Report{Complete: true, Findings: both[:1]}, []string{"A05"}, ""},
		"one is missing": {reconcile.Report{Complete: true, Findings: both[:1]}, nil, "not found"},
		"another row":    {reconcile.Report{Complete: true, Findings: append(both, reconcile.Finding{Class: "A05", AccountID: "c", PayoutID: "p"})}, nil, "nobody planted"},
		"another token":  {reconcile.Report{Complete: true, Findings: append(both, reconcile.Finding{Class: "B06", Suspects: []int64{8}})}, nil, "nobody planted"},
		"another class":  {reconcile.Report{Complete: true, Findings: append(both, reconcile.Finding{Class: "A06", AccountID: "a", PayoutID: "p"})}, nil, "nobody planted"},
		"not complete":   {reconcile.Report{Findings: both}, nil, "not complete"},
	} {
		err := checkReport(c.report, planted, c.rules...)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The statements of the rules are told apart by their text.
func TestRuleTexts(t *testing.T) {
	t.Parallel()

	texts, err := ruleTexts()
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 10 {
		t.Errorf("only %d rules were found", len(texts))
	}
	for text := range texts {
		if text != strings.TrimSpace(text) {
			t.Errorf("a text that no run sends: %q", text)
		}
	}
}
