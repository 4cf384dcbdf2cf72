package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Target is what the ratio of one series to another must be.
type Target struct {
	ID string `json:"id"`
	// Op is ">=" for rates and "<=" for times.
	Op      string  `json:"op"`
	Ratio   float64 `json:"ratio"`
	Against string  `json:"against"`
	// Runs is how many runs of each the medians need at least: a quick look is
	// no proof.
	Runs int `json:"runs"`
}

// ReadTargets parses and checks the targets. An unknown field is an error: a
// misspelt one would compare with nothing.
func ReadTargets(text []byte) ([]Target, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var targets []Target
	if err := decoder.Decode(&targets); err != nil {
		return nil, fmt.Errorf("read the targets: %w", err)
	}
	if len(targets) == 0 {
		return nil, errors.New("read the targets: there are none")
	}
	for _, t := range targets {
		switch {
		case t.ID == "" || t.Against == "" || t.ID == t.Against:
			return nil, fmt.Errorf("target %q against %q: name two series", t.ID, t.Against)
		case t.Op != ">=" && t.Op != "<=":
			return nil, fmt.Errorf("target %s: op is %q; write >= or <=", t.ID, t.Op)
		case !positive(t.Ratio):
			return nil, fmt.Errorf("target %s: ratio is %v; write a number above 0", t.ID, t.Ratio)
		case t.Runs < 1:
			return nil, fmt.Errorf("target %s: runs is %d; write 1 or more", t.ID, t.Runs)
		}
	}
	return targets, nil
}

// String returns the target as a reader says it.
func (t Target) String() string {
	return fmt.Sprintf("%s %s %.2f × %s", t.ID, t.Op, t.Ratio, t.Against)
}

// Verdict is what became of one target.
type Verdict struct {
	Target Target
	// Ratio is what was measured; 0 when it could not be told.
	Ratio float64
	Met   bool
	// Reason says why a target is missed, with the figures.
	Reason string
}

// Compare judges every target by the runs of the sitting, from which it counts
// the medians itself. A series that is missing or has too few runs is a target
// missed.
func Compare(sitting Sitting, targets []Target) []Verdict {
	series := make(map[string]Result, len(sitting.Results))
	for _, r := range sitting.Results {
		series[r.ID] = r
	}
	verdicts := make([]Verdict, 0, len(targets))
	for _, t := range targets {
		verdicts = append(verdicts, judge(t, series))
	}
	return verdicts
}

func judge(t Target, series map[string]Result) Verdict {
	for _, id := range []string{t.ID, t.Against} {
		runs := series[id].Runs
		if len(runs) < t.Runs {
			return Verdict{Target: t, Reason: fmt.Sprintf("%s was measured %d times, not %d", id, len(runs), t.Runs)}
		}
		if !positive(Median(runs)) {
			return Verdict{Target: t, Reason: fmt.Sprintf("%s has the median %v", id, Median(runs))}
		}
	}
	measured, reference := Median(series[t.ID].Runs), Median(series[t.Against].Runs)
	v := Verdict{Target: t, Ratio: measured / reference}
	if v.Met = v.Ratio >= t.Ratio; t.Op == "<=" {
		v.Met = v.Ratio <= t.Ratio
	}
	if !v.Met {
		// The figures too: a ratio just missed rounds to the target.
		v.Reason = fmt.Sprintf("the ratio is %.4f (%.4g to %.4g %s)", v.Ratio, measured, reference, series[t.ID].Unit)
	}
	return v
}
