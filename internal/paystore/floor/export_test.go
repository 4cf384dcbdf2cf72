package floor

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	queries := map[string]string{
		"raise_floor": raiseQuery, "floors": floorsQuery, "lock_floor": lockFloorQuery, "gate": gateQuery, "close_gate": closeGateQuery,
		"stop_payouts": stopQuery, "unresolved": unresolvedQuery, "open_gate": openGateQuery, "unfinished": unfinishedQuery,
		"highest": highestQuery, "highest_mark": highestMarkQuery,
		"barrier_account": Account.barrierQuery(), "barrier_rail": Rail.barrierQuery(),
	}
	for _, s := range sources {
		queries[s.file] = s.sql
	}
	return queries
}

// QueryFiles names every file in queries/.
func QueryFiles() ([]string, error) {
	entries, err := queryFiles.ReadDir("queries")
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}
