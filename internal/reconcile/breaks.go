package reconcile

import "slices"

// IsBreak tells that a finding is a break of the money or of its fence, found
// twice. What is none of it leaves a run incomplete.
func (f Finding) IsBreak() bool { return breaks(f.Class) && !f.Unconfirmed }

// Unchecked are the gaps of the report to be told beside its findings: what a finding
// of D05 or D07 says already is one line for all of them.
func (r Report) Unchecked() []Missing {
	var gaps []Missing
	for _, m := range r.Missing {
		told := slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Class == m.Class && f.What == m.Reason && f.Class != CoverageClass
		})
		if told {
			m.Reason = "what the rules stand on is not as it should be, see the findings"
		}
		gaps = append(gaps, m)
	}
	return slices.Compact(gaps)
}
