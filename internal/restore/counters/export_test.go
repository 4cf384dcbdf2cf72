package counters

// Queries are the statements of this package by name.
func Queries() map[string]string {
	return map[string]string{
		"state": stateQuery, "audited": auditedQuery, "table": tableQuery, "lock_counters": lockQuery, "raise": raiseQuery, "record": recordQuery,
	}
}
