package reconcile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

const document = "../../docs/reconcile.md"

// docs/reconcile.md lists what is in the code, and counts it. Write it anew with
//
//	go test ./internal/reconcile -run Document -update
//
// Clauses: K-8.4
// Mutation: change a word of a class, or take a row out of the page.
func TestDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, between(t, string(page), "undecidable", undecidable()), "catalogue", catalogue())
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		page = []byte(want)
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("docs/reconcile.md has drifted; write it anew with -update (-code +page):\n%s", diff)
	}
}

// between puts text between the marks of that name.
func between(t *testing.T, page, mark, text string) string {
	t.Helper()
	begin, end := "<!-- "+mark+":begin -->\n", "<!-- "+mark+":end -->\n"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no %s", document, mark)
	}
	return head + begin + text + end + tail
}

// undecidables are the classes of the wider catalogue that no rule here can decide, and
// why: the page says so before it lists the others.
var undecidables = []struct{ id, name, reason string }{
	{
		"A17", "global_nonzero",
		"The debits of a currency less its credits are the sum of what A05, A06 and A14 find, and those name the payout. A total that is zero proves nothing about any account.",
	},
	{
		"A18", "suspense_aged",
		"No settlement takes money off a clearing account here, so that none of them ever returns to zero: how old its balance is says nothing. Work in flight is in the pipeline, and too old is C04 or C11.",
	},
	{
		"A19", "duplicate_payout",
		"A payout has no beneficiary, and idempotency keys are unique: two payouts of one amount from one account are two orders.",
	},
	{
		"B17", "token_time_inversion",
		"An older token may well be used later than a newer one: as a claim it is refused, or does no harm. Only what posts and what reaches the rail is ordered, by B03 and B11.",
	},
}

// The wider catalogue is all there: a class that no rule decides, and that is not
// listed as undecidable either, is missed here.
//
// Clauses: K-8.4
// Mutation: take a class out of the code, or out of undecidables, and write the page anew.
func TestNoClassIsLeftOut(t *testing.T) {
	t.Parallel()
	var got, want []string
	for _, c := range reconcile.Catalogue() {
		got = append(got, c.ID)
	}
	for _, u := range undecidables {
		got = append(got, u.id)
	}
	slices.Sort(got)
	for _, group := range []struct {
		letter string
		size   int
	}{{"A", 20}, {"B", 21}, {"C", 14}, {"D", 10}, {"S", 5}} {
		for n := range group.size {
			want = append(want, fmt.Sprintf("%s%02d", group.letter, n+1))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the classes (-want +got):\n%s", diff)
	}
}

func undecidable() string {
	var b strings.Builder
	for _, u := range undecidables {
		fmt.Fprintf(&b, "- **%s %s.** %s\n", u.id, u.name, u.reason)
	}
	return b.String()
}

func catalogue() string {
	all := reconcile.Catalogue()
	perSeverity := map[reconcile.Severity]int{}
	for _, c := range all {
		perSeverity[c.Severity]++
	}
	var counts []string
	for _, s := range reconcile.Severities() {
		counts = append(counts, fmt.Sprintf("%d %s", perSeverity[s], s))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d classes: %s. %d more are undecidable here, see above.\n", len(all), strings.Join(counts, ", "), len(undecidables))
	groups := map[byte]string{
		'A': "Balances and legs", 'B': "Fencing", 'C': "Rail and states", 'D': "The databases as a whole", 'S': "The rail's statement (`--rail-statement`)",
	}
	for i, c := range all {
		if i == 0 || all[i-1].ID[0] != c.ID[0] {
			fmt.Fprintf(&b, "\n### %s\n\n| id | severity | rule | grace | names |\n|---|---|---|---|---|\n", groups[c.ID[0]])
		}
		fmt.Fprintf(&b, "| %s `%s` | %s | %s | %s | %s |\n", c.ID, c.Name, c.Severity, c.Rule+needs(c), grace(c.Grace), c.Names)
	}
	return b.String()
}

func needs(c reconcile.Class) string {
	if c.Reads == reconcile.ReadsPrevious {
		return " (`--since`, `--baseline`)"
	}
	return ""
}

func grace(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
}
