package reconcile_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// seal seals a clean run, and returns what was written.
func (w world) seal(t *testing.T, change ...func(*reconcile.Options)) string {
	t.Helper()
	var text bytes.Buffer
	report := w.run(t, append(change, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text, By: "erin@ops"} })...)
	if report.Outcome != reconcile.Clean || !report.Sealed {
		t.Fatalf("%s, sealed %t: %+v %v", report.Outcome, report.Sealed, report.Findings, report.Notes)
	}
	return text.String()
}

func since(t *testing.T, seal string) func(*reconcile.Options) {
	t.Helper()
	p, err := reconcile.ReadPrevious(strings.NewReader(seal), true)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *reconcile.Options) { o.Previous = p }
}

// What changed since a sealed run is found by a run that looks at what was written
// since: those classes that need an earlier run, and those that any run decides.
//
// Clauses: K-8.1, K-8.4
// Mutation: leave a family out of previousFamilies, or the open payouts out of
// since_touched.sql.
func TestSinceASeal(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"A03", "C14", "D01", "D04", "D10", "A01", "A06", "A13", "B01", "C08"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := healthy(t, major)
				earlier := since(t, w.seal(t))
				if report := w.run(t, earlier); report.Outcome != reconcile.Clean || len(report.Notes) == 0 || !strings.Contains(report.Notes[0], "payouts were looked at") {
					t.Fatalf("nothing has changed, and the run is %s: %+v %v", report.Outcome, report.Findings, report.Notes)
				}
				fault, err := w.Plant(t.Context(), variant)
				if err != nil {
					t.Fatal(err)
				}
				report := w.run(t, earlier)
				if !slices.ContainsFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == fault.Class && names(f, fault) }) {
					t.Errorf("PostgreSQL %d: %+v was not found among %v", major, fault, classes(report.Findings))
				}
			}
		})
	}
}

// A sealed leg that is gone leaves no trace; within as many runs as there are buckets
// it is found all the same.
//
// Mutation: digest the same bucket each time, or leave Runs out of the seal.
func TestARemovedLegIsFoundWithinTheBuckets(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	if _, err := w.Plant(t.Context(), "D10-removed"); err != nil {
		t.Fatal(err)
	}
	for run := 1; run <= reconcile.SealBuckets; run++ {
		p, err := reconcile.ReadPrevious(strings.NewReader(seal), true)
		if err != nil {
			t.Fatal(err)
		}
		p.Runs = run - 1
		report := w.run(t, func(o *reconcile.Options) { o.Previous = p; o.Scope.Rules = []string{"D10"} })
		if i := slices.IndexFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == "D10" }); i >= 0 {
			if !strings.Contains(report.Findings[i].What, "was removed or changed") {
				t.Errorf("run %d: %s", run, report.Findings[i].What)
			}
			return
		}
	}
	t.Errorf("a removed leg was not found within %d runs", reconcile.SealBuckets)
}

// A seal is taken of a clean run only, and counts its predecessors; a baseline of any.
//
// Mutation: seal whatever the outcome, or leave Baseline out of ReadPrevious.
func TestWhatIsSealed(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	first := w.seal(t)
	second, err := reconcile.ReadPrevious(strings.NewReader(w.seal(t, since(t, first))), true)
	if err != nil {
		t.Fatal(err)
	}
	if second.Runs != 1 || second.By != "erin@ops" || second.Outcome != reconcile.Clean {
		t.Errorf("the second seal: runs %d, by %q, outcome %s", second.Runs, second.By, second.Outcome)
	}
	fault, err := w.Plant(t.Context(), "A02")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	report := w.run(t, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text} })
	if report.Sealed || text.Len() > 0 {
		t.Errorf("a run that is %s was sealed", report.Outcome)
	}
	report = w.run(t, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text, By: "erin@ops", Baseline: true} })
	if !report.Sealed {
		t.Fatalf("no baseline: %v", report.Notes)
	}
	if _, err := reconcile.ReadPrevious(strings.NewReader(text.String()), true); !refused(err, "is a baseline of a run that was INCOMPLETE") {
		t.Errorf("--since a baseline of a run that was not clean: %v", err)
	}
	p, err := reconcile.ReadPrevious(strings.NewReader(text.String()), false)
	if err != nil {
		t.Fatal(err)
	}
	report = w.run(t, func(o *reconcile.Options) { o.Previous = p })
	if report.Outcome != reconcile.Clean {
		t.Errorf("with a baseline that anchors account %s: %s, %v", fault.AccountID, report.Outcome, classes(report.Findings))
	}
}

// A seal that is not as it was written is refused.
//
// Mutation: leave the digest out of whole.
func TestAnEditedSealIsRefused(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	lines := strings.SplitAfter(seal, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"edited":     {strings.Replace(seal, `"opening_minor":"`, `"opening_minor":"1`, 1), "its digest differs"},
		"a line out": {strings.Join(append(slices.Clone(lines[:1]), lines[2:]...), ""), "its digest differs"},
		"cut off":    {strings.Join(lines[:len(lines)-2], ""), "is cut off"},
		"no seal":    {"{}\n", "is none"},
		"empty":      {"", "is cut off"},
		"newer":      {strings.Replace(seal, `"version":1`, `"version":2`, 1), "has version 2"},
		"garbage":    {lines[0] + "garbage\n", "line 2 cannot be read"},
	} {
		if _, err := reconcile.ReadPrevious(strings.NewReader(c.text), true); !refused(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func refused(err error, want string) bool {
	sealErr, ok := errors.AsType[*reconcile.SealError](err)
	return ok && strings.Contains(err.Error(), want) && sealErr.Hint() != ""
}

// Two reports are told apart by the ids of their findings.
//
// Mutation: compare by class.
func TestDiff(t *testing.T) {
	t.Parallel()
	f := func(id string) reconcile.Finding { return reconcile.Finding{ID: id} }
	older := reconcile.Report{RunID: "1", Findings: []reconcile.Finding{f("A01-a"), f("A01-b")}}
	newer := reconcile.Report{RunID: "2", Findings: []reconcile.Finding{f("A01-b"), f("A01-c")}}
	got := reconcile.Diff(older, newer)
	want := reconcile.Difference{OldRun: "1", NewRun: "2", Comparable: true, Why: []string{}, New: []reconcile.Finding{f("A01-c")}, Still: []reconcile.Finding{f("A01-b")}, Gone: []reconcile.Finding{f("A01-a")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
