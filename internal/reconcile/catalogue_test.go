package reconcile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// sealed are the classes that need an earlier run or a statement of the rail, whose
// tests stand beside those.
func sealed(t *testing.T, variant string) bool {
	t.Helper()
	id, _, _ := strings.Cut(variant, "-")
	for _, c := range reconcile.Catalogue() {
		if c.ID == id {
			return c.Reads == reconcile.ReadsPrevious || c.Reads == reconcile.ReadsStatement
		}
	}
	t.Errorf("%s is planted, and the catalogue does not have it", variant)
	return true
}

// alone are the faults that need a world of their own: they blind the run, or happen
// while it is under way.
var alone = []string{"D06", "D07", "D07-newer", "D08", "D08-rows", "D09"}

// Every class finds what is planted for it, and no other class finds it too: of all
// that is found each is a fault of its own class, on that fault's own rows. D05 may
// come with one that had to drop a guard.
//
// Clauses: K-8.2, K-8.4
// Mutation: take a predicate out of a file of rules.
func TestEveryClassFindsItsFaultAlone(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 1800, Accounts: 256, Seed: 7, Open: 2})
		var faults []plant.Fault
		for _, variant := range plant.Variants() {
			if slices.Contains(alone, variant) || sealed(t, variant) {
				continue
			}
			fault, err := w.Plant(t.Context(), variant)
			if err != nil {
				t.Fatal(err)
			}
			faults = append(faults, fault)
		}
		report := w.run(t)
		checkFound(t, faults, report.Findings)
		checkOutcome(t, report)
	}
}

// checkFound holds findings and faults to each other, both ways.
func checkFound(t *testing.T, faults []plant.Fault, found []reconcile.Finding) {
	t.Helper()
	hit := make([]bool, len(faults))
	for _, f := range found {
		planted := false
		for i, fault := range faults {
			switch {
			case f.Class == fault.Class && names(f, fault):
				hit[i], planted = true, true
			case f.Class == "D05":
				planted = planted || slices.ContainsFunc(fault.Dropped, func(name string) bool { return strings.HasSuffix(f.Subject, "."+name) })
			}
		}
		if !planted {
			t.Errorf("nobody planted %s on account %s, payout %s, subject %s: %s", f.ID, f.AccountID, f.PayoutID, f.Subject, f.What)
		}
	}
	for i, fault := range faults {
		if !hit[i] {
			t.Errorf("%+v was not found", fault)
		}
	}
}

// names tells that the finding says what the fault says of itself.
func names(f reconcile.Finding, fault plant.Fault) bool {
	return (fault.AccountID == "" || f.AccountID == fault.AccountID) &&
		(fault.PayoutID == "" || f.PayoutID == fault.PayoutID) &&
		(fault.Subject == "" || strings.Contains(f.Subject, fault.Subject))
}

// checkOutcome holds the verdict to what was found.
func checkOutcome(t *testing.T, r reconcile.Report) {
	t.Helper()
	broken, doubtful := false, false
	for _, f := range r.Findings {
		switch f.Class {
		case "A02", "D05", "D07", "D08":
			doubtful = true
		default:
			broken = true
		}
	}
	want := reconcile.Clean
	switch {
	case broken:
		want = reconcile.Breaks
	case doubtful:
		want = reconcile.Incomplete
	}
	if r.Outcome != want || r.Complete == doubtful {
		t.Errorf("outcome %s, complete %t, with %v", r.Outcome, r.Complete, classes(r.Findings))
	}
}

// Those that blind a run, each in a world of its own.
//
// Clauses: K-8.4, K-12.1
// Mutation: leave historyOf, compareClocks, rights or compareHistory out.
func TestBlindingFaults(t *testing.T) {
	t.Parallel()
	for _, variant := range alone {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := healthy(t, major)
				var fault plant.Fault
				doIt := func() {
					var err error
					if fault, err = w.Plant(t.Context(), variant); err != nil {
						t.Error(err)
					}
				}
				var report reconcile.Report
				if variant == "D09" {
					report = w.run(t, during(doIt))
				} else {
					doIt()
					report = w.run(t)
				}
				checkFound(t, []plant.Fault{fault}, report.Findings)
				checkOutcome(t, report)
			}
		})
	}
}

// during does something once the snapshots are taken and before they are read.
func during(do func()) func(*reconcile.Options) {
	done := false
	return func(o *reconcile.Options) {
		o.Progress = func(reconcile.Progress) {
			if !done {
				done = true
				do()
			}
		}
	}
}

// The nearest thing to each break, all in one world, is none: the run is CLEAN.
//
// Clauses: K-8.3, K-8.4
// Mutation: turn a < of a rule into <=, or take a grace out.
func TestNearMissesAreClean(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 1800, Accounts: 256, Seed: 11, Open: 2})
		if report := w.run(t); report.Outcome != reconcile.Clean {
			t.Fatalf("the healthy world on PostgreSQL %d is %s: %+v %+v", major, report.Outcome, report.Findings, report.Missing)
		}
		for _, name := range plant.NearMisses() {
			if err := w.NearMiss(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		report := w.run(t)
		for _, f := range report.Findings {
			t.Errorf("PostgreSQL %d: %s: %s", major, f.ID, f.What)
		}
		if report.Outcome != reconcile.Clean {
			t.Errorf("PostgreSQL %d: %s, %+v", major, report.Outcome, report.Missing)
		}
	}
}

// Every class is planted, is described, and belongs to a family that runs.
//
// Clauses: K-8.4
// Mutation: leave a class out of a family, or a rule out of a class.
func TestCatalogueIsWhole(t *testing.T) {
	t.Parallel()
	planted := plant.Classes()
	seen := map[string]string{}
	for _, c := range reconcile.Catalogue() {
		if !slices.Contains(planted, c.ID) && c.Reads != reconcile.ReadsStatement {
			t.Errorf("nothing is planted for %s", c.ID)
		}
		for what, text := range map[string]string{"name": c.Name, "rule": c.Rule, "names": c.Names, "over": c.Over, "next": c.Next, "reads": string(c.Reads)} {
			if text == "" {
				t.Errorf("%s has no %s", c.ID, what)
			}
		}
		if !strings.HasSuffix(c.Rule, ".") {
			t.Errorf("the rule of %s is no sentence: %q", c.ID, c.Rule)
		}
		if !slices.Contains(reconcile.Severities(), c.Severity) {
			t.Errorf("%s has the severity %q", c.ID, c.Severity)
		}
		for _, key := range []string{c.ID, c.Name} {
			if other := seen[key]; other != "" {
				t.Errorf("%s and %s are both called %s", other, c.ID, key)
			}
			seen[key] = c.ID
		}
	}
	for _, id := range reconcile.ClassesWithoutFamily() {
		t.Errorf("no family decides %s", id)
	}
}
