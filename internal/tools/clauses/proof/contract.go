package proof

import (
	"bufio"
	"fmt"
	"regexp"
	"strings"
)

// The two pages the check reads, relative to the project's root.
const (
	ContractPage     = "docs/contract.md"
	VerificationPage = "docs/verification.md"
)

var (
	// A clause opens its own paragraph or list item in bold: `- **K-1.2** …`.
	// A bold id in the middle of a sentence is a reference.
	clauseStart = regexp.MustCompile(`^(?:- )?\*\*(K-\d+(?:\.\d+)?)\*\* `)
	clauseID    = regexp.MustCompile(`^K-\d+(?:\.\d+)?$`)
)

// readContract returns the clause ids of the contract in the page's order.
func readContract(text string) (ids, problems []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		m := clauseStart.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if seen[m[1]] {
			problems = append(problems, fmt.Sprintf("%s: clause %s stands twice", ContractPage, m[1]))
			continue
		}
		seen[m[1]] = true
		ids = append(ids, m[1])
	}
	if len(ids) == 0 {
		problems = append(problems, ContractPage+": no clause found; a clause begins with `- **K-1.2** `")
	}
	return ids, problems
}

// Open is one row of the open list: a clause, or a part of one, that later
// work has to prove.
type Open struct {
	Clause string
	// Partly is true when tests prove a part already and the rest is open.
	Partly bool
	// Left is the part of the project it is left to, Why the reason.
	Left, Why string
}

const (
	openBegin = "<!-- open:begin -->"
	openEnd   = "<!-- open:end -->"
)

// readOpen reads the open list: a table of clause, `open` or `partly`, the part
// it is left to, and what is missing.
func readOpen(text string) (open map[string]Open, problems []string) {
	open = map[string]Open{}
	body, ok := between(text, openBegin, openEnd)
	if !ok {
		return open, []string{fmt.Sprintf("%s: no open list between %s and %s", VerificationPage, openBegin, openEnd)}
	}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		row := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(row, "| K-") {
			continue
		}
		o, err := parseOpenRow(row)
		switch _, twice := open[o.Clause]; {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %v", VerificationPage, err))
		case twice:
			problems = append(problems, fmt.Sprintf("%s: %s stands twice in the open list", VerificationPage, o.Clause))
		default:
			open[o.Clause] = o
		}
	}
	return open, problems
}

func parseOpenRow(row string) (Open, error) {
	cells := strings.Split(strings.Trim(row, "|"), "|")
	if len(cells) != 4 {
		return Open{}, fmt.Errorf("open list row %q has %d cells, not clause, status, left to, why", row, len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	o := Open{Clause: cells[0], Partly: cells[1] == "partly", Left: cells[2], Why: cells[3]}
	switch {
	case !clauseID.MatchString(o.Clause):
		return o, fmt.Errorf("open list row %q: %q is no clause id", row, o.Clause)
	case cells[1] != "open" && cells[1] != "partly":
		return o, fmt.Errorf("open list row of %s: status %q is neither `open` nor `partly`", o.Clause, cells[1])
	case o.Left == "" || o.Why == "":
		return o, fmt.Errorf("open list row of %s: says not where it is left to, or why", o.Clause)
	}
	return o, nil
}

// between returns the text between two markers that each stand once.
func between(text, begin, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", false
	}
	body, after, ok := strings.Cut(rest, end)
	if !ok || strings.Contains(body, begin) || strings.Contains(after, end) {
		return "", false
	}
	return body, true
}
