package counters

import "io"

// Bounded is what ReadFile reads through.
func Bounded(r io.Reader, left int) io.Reader { return &bounded{r, left} }

// Queries are the statements of this package by name.
func Queries() map[string]string {
	return map[string]string{
		"state": stateQuery, "audited": auditedQuery, "table": tableQuery, "lock_counters": lockQuery, "raise": raiseQuery, "record": recordQuery,
	}
}
