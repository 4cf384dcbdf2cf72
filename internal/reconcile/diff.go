package reconcile

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is what changed from one run to the next, by the findings' ids.
type Difference struct {
	OldRun string `json:"old_run_id"`
	NewRun string `json:"new_run_id"`
	// Comparable is false when one of them did not check what the other did: what is
	// gone may only not have been looked at.
	Comparable bool      `json:"comparable"`
	Why        []string  `json:"why"`
	New        []Finding `json:"new"`
	Still      []Finding `json:"still"`
	Gone       []Finding `json:"gone"`
}

// Diff compares two runs.
func Diff(older, newer Report) Difference {
	d := Difference{
		OldRun: older.RunID, NewRun: newer.RunID, Why: notComparable(older, newer),
		New: []Finding{}, Still: []Finding{}, Gone: []Finding{},
	}
	d.Comparable = len(d.Why) == 0
	had := map[string]bool{}
	for _, f := range older.Findings {
		had[f.ID] = true
	}
	has := map[string]bool{}
	for _, f := range newer.Findings {
		has[f.ID] = true
		if had[f.ID] {
			d.Still = append(d.Still, f)
		} else {
			d.New = append(d.New, f)
		}
	}
	for _, f := range older.Findings {
		if !has[f.ID] {
			d.Gone = append(d.Gone, f)
		}
	}
	return d
}

// narrower tells that the newer run left something out that the older one looked at;
// none is all.
func narrower(what string, older, newer []string) []string {
	left := func(one string) bool { return !slices.Contains(newer, one) }
	if len(newer) == 0 || len(older) > 0 && !slices.ContainsFunc(older, left) {
		return nil
	}
	return []string{fmt.Sprintf("the newer run looked at the %s %s only", what, strings.Join(newer, ", "))}
}

// notComparable says why a finding may be gone without having been repaired.
func notComparable(older, newer Report) []string {
	why := []string{}
	if older.Pay.SystemIdentifier != newer.Pay.SystemIdentifier || older.Pay.Database != newer.Pay.Database {
		why = append(why, "they read different databases")
	}
	if i := slices.IndexFunc(older.Findings, func(f Finding) bool { return len(f.ID) != len(f.Class)+1+idDigits }); i >= 0 {
		why = append(why, fmt.Sprintf("the older report is of another version: its findings have other ids, such as %s", older.Findings[i].ID))
	}
	why = append(why, narrower("accounts", older.Scope.Accounts, newer.Scope.Accounts)...)
	why = append(why, narrower("currencies", older.Scope.Currencies, newer.Scope.Currencies)...)
	checked := map[string]bool{}
	for _, c := range newer.Coverage {
		checked[c.Class] = c.Skipped == ""
	}
	for _, c := range older.Coverage {
		if c.Skipped == "" && c.Findings > 0 && !checked[c.Class] {
			why = append(why, "the newer run did not check "+c.Class)
		}
	}
	if len(newer.Missing) > 0 {
		why = append(why, "the newer run is not complete")
	}
	return why
}
