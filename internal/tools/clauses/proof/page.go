package proof

import (
	"fmt"
	"strings"
)

const (
	tableBegin = "<!-- clauses:begin, written by `make generate` -->"
	tableEnd   = "<!-- clauses:end -->"
)

// Page returns the verification page with the report's table between its
// markers. It fails when the page has no place for it.
func (r Report) Page(page string) (string, error) {
	old, ok := between(page, tableBegin, tableEnd)
	if !ok {
		return "", fmt.Errorf("%s has no place for the table: %s … %s", VerificationPage, tableBegin, tableEnd)
	}
	table := fmt.Sprintf("\n%s.\n\n%s\n", r.Summary(), r.Table())
	return strings.Replace(page, tableBegin+old+tableEnd, tableBegin+"\n"+strings.TrimPrefix(table, "\n")+tableEnd, 1), nil
}
