// Package flyway keeps a PostgreSQL schema the way Flyway does (K-9.1): the same
// file names, the same flyway_schema_history rows to the byte, the same advisory
// lock, so that a service migrated by Flyway and `dlockctl migrate` can share one
// database in either order.
//
// # Who does what
//
//	Load       reads a catalogue of files, strictly: what Flyway would ignore in silence is an error here
//	analyse    gives every file and every history row one of Flyway's states (plan.go)
//	driver     is golang-migrate's database driver; its version is a place in the catalogue
//	source     is golang-migrate's source driver; it hands out the files by place
//	Migrator   asks the engine for one step at a time until nothing is pending
//
// golang-migrate executes; it knows one integer and nothing of checksums, missing
// or late files, repeatables or baselines. So before each of its steps the driver
// takes Flyway's lock, reads the history again and makes the plan from it; the
// engine can only run the file that this plan names.
//
// # Invariants
//
//   - One migration, one lock, one transaction: role, file and history row commit
//     together, so a kill at any moment leaves all or nothing (K-9.3).
//   - Files that cannot run in a transaction stand alone; when one fails, the row
//     says success = FALSE as Flyway's would, and every later Up refuses.
//   - Nothing is created in the schema before the history table: Flyway would take
//     it for somebody else's schema and refuse, or baseline over version 1.
//   - SetVersion never writes, Drop and every way down are refused.
//
// # Beside a Flyway
//
// The files must be the same set. And where one of them builds an index
// CONCURRENTLY, Flyway needs flyway.postgresql.transactional.lock=false: by default
// its main connection keeps a snapshot in an open transaction while it migrates, and
// while it waits for the lock, and the index build waits for that snapshot. Alone it
// hangs for ever (measured with 13.12.1 on PostgreSQL 15 and 16).
//
// # Failures
//
//	file edited, missing, late, failed      *HistoryError, nothing was run
//	SQL error in a transactional file       *MigrationError, nothing is left behind
//	SQL error in a non-transactional file   *MigrationError with Dirty set, names what is left behind
//	lock held by somebody else too long     *LockError, names pid, application and since when
//	COMMIT sent, answer lost                the history is read again under the lock; if even that
//	                                        fails, *UnknownOutcomeError
//	behind a transaction pooler             *PoolerError (K-12.3)
package flyway
