package proof_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/tools/clauses/proof"
)

const (
	contract = `# The contract

## K-1 Order

**K-1** The trigger draws. See **K-9.9** for more.

- **K-1.1** First.
- **K-1.2** Second, as **K-1.1**.
`
	openHead = "<!-- open:begin -->\n| clause | status | left to | why |\n|---|---|---|---|\n"
	openTail = "<!-- open:end -->\n"
)

// tree is a project in which K-1 is proven by a Go test, K-1.1 by a script and
// K-1.2 is open: nothing is wrong with it. Each case changes one file.
func tree(change map[string]string) fstest.MapFS {
	files := map[string]string{
		"docs/contract.md":     contract,
		"docs/verification.md": openHead + "| K-1.2 | open | restore | no restore yet |\n" + openTail,
		"internal/a/a_test.go": `package a_test

import "testing"

// TestOrder is K-1.
//
// Clauses: K-1
// Mutation: disable the trigger
// on lock_entry.
//
// More words.
func TestOrder(t *testing.T) {}
`,
		"test/e2e/testdata/acquire.txtar": `# acquire prints its grant
# Clauses: K-1.1
# Mutation: print nothing

exec dlockctl acquire a
-- out --
# Clauses: K-7.7
`,
	}
	for name, text := range change {
		files[name] = text
	}
	out := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			out[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return out
}

func TestReadReportsProofs(t *testing.T) {
	t.Parallel()

	report, err := proof.Read(tree(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := proof.Report{Clauses: []proof.Clause{
		{ID: "K-1", Tests: []proof.Test{{
			Name: "internal/a.TestOrder", Clauses: []string{"K-1"}, Mutation: "disable the trigger on lock_entry.",
		}}},
		{ID: "K-1.1", Tests: []proof.Test{{
			Name: "test/e2e/testdata/acquire.txtar", Clauses: []string{"K-1.1"}, Mutation: "print nothing",
		}}},
		{ID: "K-1.2", Open: &proof.Open{Clause: "K-1.2", Left: "restore", Why: "no restore yet"}},
	}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got, want := report.Summary(), "3 clauses: 2 proven, 0 partly, 1 open"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

// Each case is one way in which the page and the tests can disagree, and the
// only problem the tree then has.
func TestReadReportsEveryDisagreement(t *testing.T) {
	t.Parallel()

	goTest := func(doc string) string {
		return "package a_test\n\nimport \"testing\"\n\n" + doc + "\nfunc TestOrder(t *testing.T) {}\n"
	}
	openList := func(rows string) string { return openHead + rows + openTail }
	tests := map[string]struct {
		change map[string]string
		want   []string
	}{
		"no test and not open": {
			map[string]string{"docs/verification.md": openList("")},
			[]string{"K-1.2: neither a test with a mutation nor an entry in the open list"},
		},
		"the test is gone": {
			map[string]string{"internal/a/a_test.go": ""},
			[]string{"K-1: neither a test with a mutation nor an entry in the open list"},
		},
		"open and proven": {
			map[string]string{"docs/verification.md": openList("| K-1.1 | open | x | y |\n| K-1.2 | open | x | y |\n")},
			[]string{"K-1.1: called open, and test/e2e/testdata/acquire.txtar names it; close it, or call it `partly`"},
		},
		"partly proven is fine": {
			map[string]string{"docs/verification.md": openList("| K-1.1 | partly | x | y |\n| K-1.2 | open | x | y |\n")},
			nil,
		},
		"partly proven by nothing": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | partly | x | y |\n")},
			[]string{"K-1.2: called partly proven, and no test names it"},
		},
		"unknown clause in a test": {
			map[string]string{"internal/a/a_test.go": goTest("// Clauses: K-1, K-9.9\n// Mutation: m")},
			[]string{"internal/a.TestOrder: names K-9.9, which is no clause of the contract"},
		},
		"unknown clause in a script": {
			map[string]string{"test/e2e/testdata/b.txtar": "# Clauses: K-8.8\n# Mutation: m\n"},
			[]string{"test/e2e/testdata/b.txtar: names K-8.8, which is no clause of the contract"},
		},
		"unknown clause in the open list": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | open | x | y |\n| K-7.7 | open | x | y |\n")},
			[]string{"docs/verification.md: the open list names K-7.7, which is no clause of the contract"},
		},
		"clause without mutation": {
			map[string]string{"internal/a/a_test.go": goTest("// Clauses: K-1")},
			[]string{
				"K-1: neither a test with a mutation nor an entry in the open list",
				"internal/a.TestOrder: names clauses and no mutation; add `Mutation: <what to take out to turn it red>`",
			},
		},
		"mutation without clause is fine": {
			map[string]string{"test/e2e/testdata/b.txtar": "# Mutation: m\n"},
			nil,
		},
		"not a clause id": {
			map[string]string{"internal/a/a_test.go": goTest("// Clauses: K-1, K-1.1 to K-1.2\n// Mutation: m")},
			[]string{"internal/a.TestOrder: \"K-1.1 to K-1.2\" is no clause id; write `Clauses: K-1.2, K-2.3`"},
		},
		"claim outside a test's doc comment": {
			map[string]string{"internal/b/b_test.go": "package b\n\n// Clauses: K-1\n// Mutation: m\nfunc helper() {}\n"},
			[]string{"internal/b/b_test.go: a comment names clauses and is not the doc comment of a test"},
		},
		"a method is no test": {
			map[string]string{"internal/b/b_test.go": "package b\n\ntype s struct{}\n\n// Clauses: K-1\n// Mutation: m\nfunc (s) TestX() {}\n"},
			[]string{"internal/b/b_test.go: a comment names clauses and is not the doc comment of a test"},
		},
		"clause twice in the contract": {
			map[string]string{"docs/contract.md": contract + "- **K-1.1** Again.\n"},
			[]string{"docs/contract.md: clause K-1.1 stands twice"},
		},
		"clause twice in the open list": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | open | x | y |\n| K-1.2 | open | x | y |\n")},
			[]string{"docs/verification.md: K-1.2 stands twice in the open list"},
		},
		"open without a reason": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | open | x | |\n")},
			[]string{
				"K-1.2: neither a test with a mutation nor an entry in the open list",
				"docs/verification.md: open list row of K-1.2: says not where it is left to, or why",
			},
		},
		"unknown status": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | later | x | y |\n")},
			[]string{
				"K-1.2: neither a test with a mutation nor an entry in the open list",
				"docs/verification.md: open list row of K-1.2: status \"later\" is neither `open` nor `partly`",
			},
		},
		"too few cells": {
			map[string]string{"docs/verification.md": openList("| K-1.2 | open | x |\n")},
			[]string{
				"K-1.2: neither a test with a mutation nor an entry in the open list",
				"docs/verification.md: open list row \"| K-1.2 | open | x |\" has 3 cells, not clause, status, left to, why",
			},
		},
		"no open list": {
			map[string]string{"docs/verification.md": "nothing\n"},
			[]string{
				"K-1.2: neither a test with a mutation nor an entry in the open list",
				"docs/verification.md: no open list between <!-- open:begin --> and <!-- open:end -->",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			report, err := proof.Read(tree(tt.change))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, report.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadFailsOnAContractWithoutClauses(t *testing.T) {
	t.Parallel()

	report, err := proof.Read(tree(map[string]string{"docs/contract.md": "# Nothing\n"}))
	if err != nil {
		t.Fatal(err)
	}
	want := "docs/contract.md: no clause found; a clause begins with `- **K-1.2** `"
	if !slices.Contains(report.Problems, want) {
		t.Errorf("problems %q, want %q among them", report.Problems, want)
	}
}

func TestReadRefusesATreeItCannotRead(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]map[string]string{
		"no contract":          {"docs/contract.md": ""},
		"no verification":      {"docs/verification.md": ""},
		"a test that is no Go": {"internal/b/b_test.go": "package\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if report, err := proof.Read(tree(change)); err == nil {
				t.Errorf("read without an error: %+v", report)
			}
		})
	}
}

func TestReadLooksAtTestsOnly(t *testing.T) {
	t.Parallel()

	bad := "package b\n\n// Clauses: K-8.8\n// Mutation: m\nfunc TestX() {}\n"
	report, err := proof.Read(tree(map[string]string{
		"internal/b/b.go":                  bad,
		"internal/b/testdata/b_test.go":    bad,
		".git/b_test.go":                   bad,
		"test/peer/node_modules/b_test.go": bad,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Problems) > 0 {
		t.Errorf("problems %q, want none", report.Problems)
	}
}

func TestPageHoldsTheTable(t *testing.T) {
	t.Parallel()

	report, err := proof.Read(tree(nil))
	if err != nil {
		t.Fatal(err)
	}
	const page = "before\n<!-- clauses:begin, written by `make generate` -->\nold\n<!-- clauses:end -->\nafter\n"
	got, err := report.Page(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n<!-- clauses:begin, written by `make generate` -->\n" +
		"3 clauses: 2 proven, 0 partly, 1 open.\n\n" +
		"| clause | test | mutation that turns it red |\n|---|---|---|\n" +
		"| K-1 | `internal/a.TestOrder` | disable the trigger on lock_entry. |\n" +
		"| K-1.1 | `test/e2e/testdata/acquire.txtar` | print nothing |\n" +
		"| K-1.2 | *open* | left to: restore |\n\n" +
		"<!-- clauses:end -->\nafter\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if again, err := report.Page(got); err != nil || again != got {
		t.Errorf("writing the page twice changes it: %v\n%s", err, cmp.Diff(got, again))
	}
	if _, err := report.Page("no place"); err == nil || !strings.Contains(err.Error(), "no place for the table") {
		t.Errorf("a page without markers: %v, want an error that says so", err)
	}
}
