package doctor

import "github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"

// SyncGuardChecks are made where SyncGuard's tables keep the locks, in place of all
// others.
func SyncGuardChecks() []Check {
	checks := []Check{
		{
			ID: "reachable", Clause: "K-10.2", Severity: Critical,
			Title: "the database with SyncGuard's tables answers", Meaning: "nothing else can be read without it",
			look: reachable(SyncGuard),
		},
		{
			ID: "version", Clause: "K-6.3", Severity: Critical,
			Title: "PostgreSQL is 15 or newer", Meaning: "16 is what everything is tested on first, 15 is supported",
			look: on(SyncGuard, version),
		},
		{
			ID: "primary", Clause: "K-6.3", Severity: Critical,
			Title: "the server is a primary", Meaning: "nothing is decided from a standby: what it shows may be over, and its counters are behind",
			look: on(SyncGuard, primary),
		},
		{
			ID: "tables", Clause: "K-10.2", Severity: Critical,
			Title: "both tables are there, as the library makes them", Meaning: "with another shape one of the two, library or this program, fails or writes what the other misreads",
			look: on(SyncGuard, guardShape(tables.KindTable, tables.KindColumn)),
		},
		{
			ID: "indexes", Clause: "K-10.2", Severity: High,
			Title: "the keys are unique and every index is there", Meaning: "without the primary key one lock can have two holders; without the others each release, extend and cleanup reads the whole table",
			look: on(SyncGuard, guardShape(tables.KindIndex)),
		},
		{
			ID: "twins", Clause: "K-10.2", Severity: Critical,
			Title: "the search_path leads to one copy of the tables", Meaning: "the library takes no schema: clients with different search_paths use different copies, and each grants the same lock",
			look: on(SyncGuard, guardTwins),
		},
		{
			ID: "acts", Clause: "K-10.2", Severity: Critical,
			Title: "no trigger and no row-level security acts on the tables", Meaning: "a trigger can keep a lock from being written or deleted without an error, and row-level security hides the one that stands: two then hold it",
			look: on(SyncGuard, guardActs),
		},
		{
			ID: "counters", Clause: "K-7.2", Severity: Critical,
			Title: "no counter is behind its lock", Meaning: "the counter was set back, by a restore or by hand: the fences up to the lock's are issued a second time",
			look: on(SyncGuard, guardCounters),
		},
		{
			ID: "headroom", Clause: "K-10.2", Severity: High,
			Title: "counters are far from the end of 15 digits", Meaning: "a key grants no more at 900000000000000, and the library issues fences of 16 digits, which compare as lower, from 10^15 on",
			look: on(SyncGuard, guardHeadroom),
		},
		{
			ID: "rows", Clause: "K-10.2", Severity: Medium,
			Title: "every lock's row is one that the library writes", Meaning: "a fence that is not 15 digits compares wrongly, and a key in another form is never found",
			look: on(SyncGuard, guardRows),
		},
		{
			ID: "isolation", Clause: "K-2.11", Severity: Medium,
			Title: "the default isolation is read committed", Meaning: "the library sets none: under any other, most of its contended acquires end in an error instead of an answer",
			look: on(SyncGuard, isolation),
		},
		{
			ID: "blockers", Clause: "K-2.11", Severity: High,
			Title: "no open transaction keeps a key", Meaning: "the library waits for it without a bound, deaf to its own abort, and its looks show nothing",
			look: on(SyncGuard, guardBlockers),
		},
		{
			ID: "clock", Clause: "K-2.10", Severity: Medium,
			Title: "the server's clock agrees with this machine's", Meaning: "the server's clock decides when a lease ends: one that is put right by a jump forward ends leases that their holders still trust",
			look: on(SyncGuard, clockOfServer),
		},
		{
			ID: "lapsed", Clause: "K-10.2", Severity: Low,
			Title: "what has lapsed is cleared away", Meaning: "the library leaves a lapsed row until its key is acquired again: of keys that never are, rows stay for ever",
			look: on(SyncGuard, guardLapsed),
		},
		{
			ID: "audit", Clause: "K-3.3", Severity: Low,
			Title: "there is an audit of what operators do, append-only", Meaning: "without it, revoke and fast-forward are refused: they record what they did with what they do",
			look: on(SyncGuard, guardAudited),
		},
		{
			ID: "connections", Clause: "K-6.2", Severity: Medium,
			Title: "there is room for connections", Meaning: "whoever comes next is refused: a client that restarts, or the person who would look why",
			look: on(SyncGuard, connections),
		},
		{
			ID: "pooler", Clause: "K-12.3", Severity: Low,
			Title: "no transaction pooler stands between", Meaning: "the lock verbs work behind one; dlockctl migrate refuses to, since its lock belongs to a session",
			look: on(SyncGuard, pooler),
		},
	}
	for i := range checks {
		checks[i].ID, checks[i].Database = SyncGuard+"_"+checks[i].ID, SyncGuard
	}
	return checks
}
