// Package counters brings a SyncGuard deployment whose database was set back, by a
// restore or a fail-over, to where no fence can be issued twice (K-7, K-10.2).
//
// SyncGuard counts fences for each key alone, and nothing of it compares a counter
// with anything: one that was set back goes on from there without a word. So the
// highest fence of each key is looked for wherever it is remembered (the counter
// itself, the lock's row, the audit of revokes, an export from before, the
// operator's word), and the counter is raised to a margin above it, for a holder may
// carry a fence that has reached no database (K-7.3).
//
// # What there is not
//
// There is no gate: the library asks for none. The counters are raised in one
// transaction that keeps every acquire waiting, and until it has run, a restored
// database grants with fences of before: keep the clients stopped until then. A key
// that was made after the backup, and that neither an export nor the operator names,
// is known to nobody and begins at 1.
//
// # The order, and what a death in between leaves
//
//	step       what is committed                                dead after it
//	evidence   nothing: plan and refusals                       as before
//	raise      every counter and its record, in one piece       as before, or done
//	verify     nothing: read through new connections            done
//
// A rerun finds its own record, of this instance and timeline, and leaves a counter
// at which nothing was granted since where it stands; one that has granted is raised
// again, for from its number alone nobody can tell this life from one before.
package counters
