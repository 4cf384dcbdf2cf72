// Package migrations carries the versioned schema of each database, the seeds and the audit of a SyncGuard deployment,
// under the names that Flyway gives them (K-9.1). Seeds are a location of their own, because they are not schema
// (K-9.4); so is the audit, which not everybody wants in the database of an application.
package migrations

import "embed"

// FS holds the locations lockdb, paydb, seed/paydb, syncguard and audit/syncguard.
//
//go:embed lockdb/*.sql paydb/*.sql seed/paydb/*.sql syncguard/*.sql audit/syncguard/*.sql
var FS embed.FS
