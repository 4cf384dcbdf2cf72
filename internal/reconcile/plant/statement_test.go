package plant_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// Each statement differs from the healthy one by the lines that its name promises.
//
// Clauses: K-8.4
// Mutation: write the statement of the world whatever is asked for.
func TestStatement(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0], plant.Params{Payouts: 600, Accounts: 64, Seed: 4, Open: 1})
	list := func(name string) ([]string, plant.Fault) {
		var out bytes.Buffer
		fault, err := w.Statement(t.Context(), &out, name)
		if err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(records[0], ","); got != "reference,key,amount_minor,currency,status,at" {
			t.Fatalf("the header of %s is %s", name, got)
		}
		var lines []string
		for _, r := range records[1:] {
			lines = append(lines, strings.Join(r, ","))
		}
		slices.Sort(lines)
		return lines, fault
	}
	whole, _ := list("healthy")
	if acked := lines(t, w.pay, "SELECT 1 FROM rail_submission WHERE outcome = 'ACKED'"); len(acked) != len(whole) {
		t.Fatalf("%d lines for %d acknowledged attempts", len(whole), len(acked))
	}
	for name, want := range map[string]struct{ added, missing int }{
		"S01": {1, 0}, "S02": {0, 1}, "S03": {1, 1}, "S03-currency": {1, 1}, "S03-reference": {1, 1}, "S04": {1, 0}, "S04-reference": {1, 1}, "S05": {1, 0},
		"near-S01": {1, 0}, "near-S02": {0, 1}, "near-S03": {0, 0}, "near-S04": {2, 0},
	} {
		got, fault := list(name)
		added, missing := count(got, whole), count(whole, got)
		if added != want.added || missing != want.missing {
			t.Errorf("%s adds %d lines and leaves out %d, want %d and %d", name, added, missing, want.added, want.missing)
		}
		if class, _, _ := strings.Cut(name, "-"); class != "near" && fault.Class != class {
			t.Errorf("%s is a fault of class %q", name, fault.Class)
		}
		if strings.HasPrefix(name, "near") && fault.Class != "" {
			t.Errorf("%s is a fault: %+v", name, fault)
		}
	}
	if _, err := w.Statement(t.Context(), &bytes.Buffer{}, "S99"); err == nil {
		t.Error("a statement that nobody knows was written")
	}
}

// count is how many lines, of each as many as there are, the other list lacks.
func count(lines, other []string) int {
	left := map[string]int{}
	for _, l := range other {
		left[l]++
	}
	n := 0
	for _, l := range lines {
		if left[l]--; left[l] < 0 {
			n++
		}
	}
	return n
}
