// Package report holds what a sitting of the benchmarks found, and compares it
// with the targets.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Sitting is one run of the benchmarks on one machine. Its figures are read
// against each other; those of two sittings are not comparable.
type Sitting struct {
	MadeAt  time.Time `json:"made_at"`
	Machine Machine   `json:"machine"`
	// Rounds and Seconds are of the rates, Pairs of the whole processes.
	Rounds  int      `json:"rounds"`
	Seconds int      `json:"seconds"`
	Pairs   int      `json:"pairs"`
	Results []Result `json:"results"`
}

// Machine is where a sitting took place.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
	PGBench    string `json:"pgbench"`
	// MemoryMiB is the machine's memory, 0 where it is not known.
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	// SharedBuffers is the servers' setting, such as "128MB".
	SharedBuffers string `json:"shared_buffers,omitempty"`
}

// Result is one series of a sitting.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Unit is pairs/s, ms or MiB.
	Unit   string    `json:"unit"`
	Runs   []float64 `json:"runs"`
	Median float64   `json:"median"`
	Spread Spread    `json:"spread"`
	// Reference names the series that Ratio divides by; empty for a series that
	// is only a reference.
	Reference string `json:"reference,omitempty"`
	// Ratio is the median divided by the reference's median.
	Ratio float64 `json:"ratio,omitempty"`
}

// Spread is the lowest and the highest run.
type Spread struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Summarize fills in each result's median and spread, and its ratio when the
// reference is among the results. It returns an error for a result without runs
// and for a run that is no positive number, which no measurement yields.
func Summarize(results []Result) error {
	medians := make(map[string]float64, len(results))
	for i := range results {
		r := &results[i]
		if len(r.Runs) == 0 {
			return fmt.Errorf("%s has no runs", r.ID)
		}
		for _, run := range r.Runs {
			if !positive(run) {
				return fmt.Errorf("%s has a run of %v %s", r.ID, run, r.Unit)
			}
		}
		r.Median = Median(r.Runs)
		r.Spread = Spread{Min: slices.Min(r.Runs), Max: slices.Max(r.Runs)}
		medians[r.ID] = r.Median
	}
	for i := range results {
		if reference, there := medians[results[i].Reference]; there {
			results[i].Ratio = results[i].Median / reference
		}
	}
	return nil
}

// Median returns the middle of the runs, or the mean of the middle two. Runs
// must not be empty; it is left as it is.
func Median(runs []float64) float64 {
	sorted := slices.Sorted(slices.Values(runs))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// Write writes the sitting to a file, whose folder it makes.
func (s Sitting) Write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// ErrNoResult is returned by Newest.
var ErrNoResult = errors.New("nothing was measured yet; run `make bench`")

// Newest reads the result files of a folder and returns the sitting that was
// made last, by what the file says: a file's time does not survive a copy. It
// returns ErrNoResult when there is none.
func Newest(dir string) (Sitting, string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return Sitting{}, "", fmt.Errorf("look for results: %w", err)
	}
	var newest Sitting
	var found string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return Sitting{}, "", fmt.Errorf("read a result: %w", err)
		}
		var sitting Sitting
		if err := json.Unmarshal(text, &sitting); err != nil {
			return Sitting{}, "", fmt.Errorf("read %s: %w", path, err)
		}
		if found == "" || sitting.MadeAt.After(newest.MadeAt) {
			newest, found = sitting, path
		}
	}
	if found == "" {
		return Sitting{}, "", fmt.Errorf("%s: %w", dir, ErrNoResult)
	}
	return newest, found, nil
}
