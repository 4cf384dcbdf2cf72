package tables

// Queries are the statements of this package by name.
func Queries() map[string]string {
	return map[string]string{
		"table": tableQuery, "columns": columnsQuery, "indexes": indexesQuery, "hindrances": hindrancesQuery, "twins": twinsQuery, "others": othersQuery,
	}
}
