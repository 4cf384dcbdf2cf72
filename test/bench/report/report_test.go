package report_test

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/test/bench/report"
)

// Mutation: take out the sorting, or the mean of the middle two.
func TestMedian(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		runs []float64
		want float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 2, 6, 4}, 5},
		{[]float64{1, 1000, 2, 3, 2}, 2},
	} {
		before := append([]float64{}, c.runs...)
		if got := report.Median(c.runs); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.runs, got, c.want)
		}
		if diff := cmp.Diff(before, c.runs); diff != "" {
			t.Errorf("Median changed its argument (-before +after):\n%s", diff)
		}
	}
}

// Mutation: divide the other way round, or take the mean for the median.
func TestSummarize(t *testing.T) {
	t.Parallel()

	results := []report.Result{
		{ID: "reference", Runs: []float64{200, 100, 600}},
		{ID: "measured", Runs: []float64{90, 110, 100}, Reference: "reference"},
		{ID: "alone", Runs: []float64{4}, Reference: "not measured"},
	}
	if err := report.Summarize(results); err != nil {
		t.Fatal(err)
	}
	want := []report.Result{
		{ID: "reference", Runs: []float64{200, 100, 600}, Median: 200, Spread: report.Spread{Min: 100, Max: 600}},
		{ID: "measured", Runs: []float64{90, 110, 100}, Reference: "reference", Median: 100, Spread: report.Spread{Min: 90, Max: 110}, Ratio: 0.5},
		{ID: "alone", Runs: []float64{4}, Reference: "not measured", Median: 4, Spread: report.Spread{Min: 4, Max: 4}},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestSummarizeRefusesWhatIsNoMeasurement(t *testing.T) {
	t.Parallel()

	for name, runs := range map[string][]float64{
		"no runs": nil, "zero": {1, 0}, "negative": {-1}, "infinite": {math.Inf(1)}, "no number": {math.NaN()},
	} {
		if err := report.Summarize([]report.Result{{ID: "x", Runs: runs}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Mutation: take the last file by name.
func TestNewestIsByWhatTheFileSays(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "results") // made by Write
	if _, _, err := report.Newest(dir); !errors.Is(err, report.ErrNoResult) {
		t.Errorf("without results: %v, want ErrNoResult", err)
	}
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	newest := report.Sitting{
		MadeAt: day.AddDate(0, 0, 2), Machine: report.Machine{OS: "linux", CPUs: 2}, Rounds: 5, Seconds: 3, Pairs: 50,
		Results: []report.Result{{ID: "a", Title: "A", Unit: "ms", Runs: []float64{1.5}, Median: 1.5, Spread: report.Spread{Min: 1.5, Max: 1.5}}},
	}
	for name, sitting := range map[string]report.Sitting{"c": {MadeAt: day}, "a": newest, "b": {MadeAt: day.AddDate(0, 0, 1)}} {
		if err := sitting.Write(filepath.Join(dir, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	got, path, err := report.Newest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(path) != "a.json" {
		t.Errorf("the newest is %s, want a.json", path)
	}
	if diff := cmp.Diff(newest, got); diff != "" {
		t.Errorf("the newest, read back (-written +read):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()

	sitting := report.Sitting{
		Machine: report.Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26", PostgreSQL: "16.1", PGBench: "pgbench 15", MemoryMiB: 4000, SharedBuffers: "128MB"},
		Rounds:  5, Seconds: 3, Pairs: 50,
		Results: []report.Result{
			{ID: "ref", Title: "a reference", Unit: "pairs/s", Median: 2000, Spread: report.Spread{Min: 1900.4, Max: 12000}},
			{ID: "own", Title: "our own", Unit: "pairs/s", Median: 1000, Spread: report.Spread{Min: 9.5, Max: 1100}, Reference: "ref", Ratio: 0.5},
		},
	}
	var out strings.Builder
	if err := report.WriteTable(&out, sitting, []report.Target{{ID: "own", Op: ">=", Ratio: 0.95, Against: "ref"}}); err != nil {
		t.Fatal(err)
	}
	const want = `linux/amd64, 2 CPUs, 3.9 GiB, go1.26, PostgreSQL 16.1 with shared_buffers 128MB, pgbench 15
5 rounds of 3 s; whole processes 50 times

ID   WHAT         MEDIAN   MIN    MAX  UNIT     RATIO  TO   TARGET
ref  a reference    2000  1900  12000  pairs/s
own  our own        1000  9.50   1100  pairs/s  0.500  ref  >= 0.95
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}
