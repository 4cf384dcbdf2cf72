package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/test/bench/report"
)

func sitting(runs map[string][]float64) report.Sitting {
	var s report.Sitting
	for id, r := range runs {
		// The figures of the file are not believed, the runs are.
		s.Results = append(s.Results, report.Result{ID: id, Unit: "pairs/s", Runs: r, Median: 1e9, Ratio: 1})
	}
	return s
}

// Mutation: swap the two comparisons of judge, make one of them strict, take out
// the count of runs, or trust the medians of the file.
func TestCompare(t *testing.T) {
	t.Parallel()

	atLeast := report.Target{ID: "own", Op: ">=", Ratio: 0.95, Against: "ref", Runs: 3}
	atMost := report.Target{ID: "own", Op: "<=", Ratio: 1.5, Against: "ref", Runs: 3}
	ref := []float64{100, 1, 1000} // median 100
	for _, c := range []struct {
		name   string
		target report.Target
		runs   map[string][]float64
		met    bool
		reason string
	}{
		{"rate above", atLeast, map[string][]float64{"own": {96, 96, 96}, "ref": ref}, true, ""},
		{"rate just there", atLeast, map[string][]float64{"own": {95, 1, 9000}, "ref": ref}, true, ""},
		{"rate just missed", atLeast, map[string][]float64{"own": {94.99, 94.99, 9000}, "ref": ref}, false, "0.9499"},
		{"time below", atMost, map[string][]float64{"own": {20, 20, 20}, "ref": ref}, true, ""},
		{"time just there", atMost, map[string][]float64{"own": {150, 1, 9000}, "ref": ref}, true, ""},
		{"time just missed", atMost, map[string][]float64{"own": {150.1, 150.1, 1}, "ref": ref}, false, "1.5010"},
		{"not measured", atLeast, map[string][]float64{"ref": ref}, false, "own was measured 0 times, not 3"},
		{"no reference", atMost, map[string][]float64{"own": ref}, false, "ref was measured 0 times, not 3"},
		{"too few runs", atMost, map[string][]float64{"own": {1, 1}, "ref": ref}, false, "own was measured 2 times, not 3"},
		{"no figure", atMost, map[string][]float64{"own": {0, 0, 0}, "ref": ref}, false, "own has the median 0"},
	} {
		verdicts := report.Compare(sitting(c.runs), []report.Target{c.target})
		if len(verdicts) != 1 {
			t.Fatalf("%s: %d verdicts", c.name, len(verdicts))
		}
		v := verdicts[0]
		if v.Met != c.met || !strings.Contains(v.Reason, c.reason) || v.Met != (v.Reason == "") {
			t.Errorf("%s: met %v because %q, want %v because %q", c.name, v.Met, v.Reason, c.met, c.reason)
		}
	}
}

func TestCompareJudgesEveryTarget(t *testing.T) {
	t.Parallel()

	verdicts := report.Compare(sitting(map[string][]float64{"a": {1}, "b": {2}}), []report.Target{
		{ID: "a", Op: ">=", Ratio: 1, Against: "b", Runs: 1},
		{ID: "b", Op: ">=", Ratio: 1, Against: "a", Runs: 1},
	})
	var met []bool
	for _, v := range verdicts {
		met = append(met, v.Met)
	}
	if diff := cmp.Diff([]bool{false, true}, met); diff != "" {
		t.Errorf("met (-want +got):\n%s", diff)
	}
}

func TestReadTargets(t *testing.T) {
	t.Parallel()

	targets, err := report.ReadTargets([]byte(`[{"id":"a","op":"<=","ratio":1.5,"against":"b","runs":5}]`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]report.Target{{ID: "a", Op: "<=", Ratio: 1.5, Against: "b", Runs: 5}}, targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// Mutation: take a case out of ReadTargets.
func TestReadTargetsRefuses(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"none":             `[]`,
		"no JSON":          `-`,
		"unknown field":    `[{"id":"a","op":"<=","ratio":1,"rounds":5,"against":"b","runs":5}]`,
		"no reference":     `[{"id":"a","op":"<=","ratio":1,"runs":5}]`,
		"against itself":   `[{"id":"a","op":"<=","ratio":1,"against":"a","runs":5}]`,
		"unknown operator": `[{"id":"a","op":"<","ratio":1,"against":"b","runs":5}]`,
		"no ratio":         `[{"id":"a","op":"<=","against":"b","runs":5}]`,
		"no runs":          `[{"id":"a","op":"<=","ratio":1,"against":"b"}]`,
	} {
		if _, err := report.ReadTargets([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
