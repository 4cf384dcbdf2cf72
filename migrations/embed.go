// Package migrations carries the versioned schema of both databases and the seeds, under the names that Flyway gives
// them (K-9.1). Seeds are a location of their own, because they are not schema (K-9.4).
package migrations

import "embed"

// FS holds the locations lockdb, paydb and seed/paydb.
//
//go:embed lockdb/*.sql paydb/*.sql seed/paydb/*.sql
var FS embed.FS
