// Package proof holds the contract against the tests: each clause of
// docs/contract.md has a test that proves it and a mutation that turns that
// test red, or stands in the open list of docs/verification.md with the part of
// the project it is left to.
package proof

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Report is what the tree says about each clause.
type Report struct {
	Clauses []Clause
	// Problems are the reasons to fail: the clauses' in their order, then the rest.
	Problems []string
}

// Clause is one clause with its proof.
type Clause struct {
	ID    string
	Tests []Test
	// Open is nil when nothing is left to do.
	Open *Open
}

// Read walks a project's tree. It returns an error only when the tree cannot be
// read; everything wrong with what it says is in Report.Problems.
func Read(tree fs.FS) (Report, error) {
	contract, err := fs.ReadFile(tree, ContractPage)
	if err != nil {
		return Report{}, fmt.Errorf("read the contract: %w", err)
	}
	verification, err := fs.ReadFile(tree, VerificationPage)
	if err != nil {
		return Report{}, fmt.Errorf("read the open list: %w", err)
	}
	tests, problems, err := readTests(tree)
	if err != nil {
		return Report{}, fmt.Errorf("read the tests: %w", err)
	}
	ids, bad := readContract(string(contract))
	problems = append(problems, bad...)
	open, bad := readOpen(string(verification))
	problems = append(problems, bad...)

	var report Report
	byClause, unknown := index(ids, tests)
	problems = append(problems, unknown...)
	for _, id := range ids {
		clause := Clause{ID: id, Tests: byClause[id]}
		if o, ok := open[id]; ok {
			clause.Open = &o
			delete(open, id)
		}
		if problem := clause.problem(); problem != "" {
			report.Problems = append(report.Problems, problem)
		}
		report.Clauses = append(report.Clauses, clause)
	}
	for id := range open {
		problems = append(problems, fmt.Sprintf("%s: the open list names %s, which is no clause of the contract", VerificationPage, id))
	}
	slices.Sort(problems)
	report.Problems = append(report.Problems, problems...)
	return report, nil
}

// index sorts the tests under the clauses they name. Only a test with a
// mutation proves anything.
func index(ids []string, tests []Test) (byClause map[string][]Test, problems []string) {
	slices.SortFunc(tests, func(a, b Test) int { return cmp.Compare(a.Name, b.Name) })
	byClause = map[string][]Test{}
	for _, test := range tests {
		for _, id := range test.Clauses {
			switch {
			case !slices.Contains(ids, id):
				problems = append(problems, fmt.Sprintf("%s: names %s, which is no clause of the contract", test.Name, id))
			case test.Mutation != "":
				byClause[id] = append(byClause[id], test)
			}
		}
	}
	return byClause, problems
}

func (c Clause) problem() string {
	switch {
	case len(c.Tests) == 0 && c.Open == nil:
		return c.ID + ": neither a test with a mutation nor an entry in the open list"
	case len(c.Tests) == 0 && c.Open.Partly:
		return c.ID + ": called partly proven, and no test names it"
	case len(c.Tests) > 0 && c.Open != nil && !c.Open.Partly:
		return c.ID + ": called open, and " + c.Tests[0].Name + " names it; close it, or call it `partly`"
	}
	return ""
}

// Table is the clause table as Markdown, a row for each clause and test.
func (r Report) Table() string {
	var b strings.Builder
	b.WriteString("| clause | test | mutation that turns it red |\n|---|---|---|\n")
	for _, c := range r.Clauses {
		id := c.ID
		for _, test := range c.Tests {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", id, test.Name, cell(test.Mutation))
			id = ""
		}
		if c.Open != nil {
			fmt.Fprintf(&b, "| %s | *%s* | left to: %s |\n", id, status(*c.Open), cell(c.Open.Left))
		}
	}
	return b.String()
}

func status(o Open) string {
	if o.Partly {
		return "the rest is open"
	}
	return "open"
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Summary counts the clauses.
func (r Report) Summary() string {
	var proven, partly, open int
	for _, c := range r.Clauses {
		switch {
		case c.Open == nil && len(c.Tests) > 0:
			proven++
		case c.Open != nil && c.Open.Partly:
			partly++
		case c.Open != nil:
			open++
		}
	}
	return fmt.Sprintf("%d clauses: %d proven, %d partly, %d open", len(r.Clauses), proven, partly, open)
}
