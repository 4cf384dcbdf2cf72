package postgres

import (
	"io/fs"
	"maps"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Pooled makes a store behave as if a transaction pooler stood between.
func Pooled(opts Options) Options {
	opts.pooled = true
	return opts
}

// Settling makes a store wait for others for longer after a server's start.
func Settling(opts Options, d time.Duration) Options {
	opts.settling = d
	return opts
}

// Shown is the highest token that the store knows to have been shown.
func (s *Store) Shown() lockstore.Token { return s.detector.shown() }

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	queries := map[string]string{
		"acquire": acquireQuery, "renew": renewQuery, "release": releaseQuery, "heartbeat": heartbeatQuery,
		"create_session": createSessionQuery, "lock_session": lockSessionQuery, "lapsed_sessions": lapsedSessionsQuery,
		"lock_entries_of_sessions": lockEntriesQuery, "delete_sessions": deleteSessionsQuery, "extend_journal": extendJournalQuery,
		"list_entries": listEntriesQuery, "list_sessions": listSessionsQuery, "blockers": blockersQuery,
		"revoke": revokeQuery, "list_revocations": listRevocationsQuery,
		"lock_live_sessions": lockLiveSessionsQuery, "release_many": releaseManyQuery, "lock_entries": selectEntriesQuery,
		"revoke_many": revokeManyQuery, "prune": pruneQuery, "entry_session": entrySessionQuery, "lock_key": lockKeyQuery,
		"log_operator_action": logActionQuery, "list_operator_log": listOperatorLogQuery, "grant_history": grantHistoryQuery,
		"verify_chain": verifyChainQuery, "verify_revocations": verifyRevocationsQuery, "verify_guards": verifyGuardsQuery, "count_audit": countAuditQuery,
		"check_triggers": checkTriggersQuery, "check_sequence": checkSequenceQuery, "check_tables": checkTablesQuery, "check_gate": checkGateQuery,
		"journal_partitions": journalPartitionsQuery, "journal_state": journalStateQuery,
		"journal_activity": journalActivityQuery, "journal_standing": journalStandingQuery,
	}
	queries["detect_standing"], queries["detect_fast_forward"] = detectStandingQuery, detectFastForwardQuery
	queries["detect_skip"] = detectSkipQuery
	queries["look"], queries["live_sessions"] = lookQuery, liveSessionsQuery
	queries["acquire_many"], queries["lock_keys"] = acquireManyQuery, lockKeysQuery
	queries["try_sessions"], queries["try_keys"], queries["try_entries"] = trySessionsQuery, tryKeysQuery, tryEntriesQuery
	queries["blockers_many"] = blockersManyQuery
	queries["pulse"], queries["detect_forged"] = pulseQuery, detectForgedQuery
	maps.Copy(queries, rewindQueries())
	return queries
}

// rewindQueries are those of the restore order.
func rewindQueries() map[string]string {
	queries := map[string]string{
		"rewind_gate": rewindGateQuery, "rewind_close_for_run": rewindCloseQuery, "rewind_open_after_run": rewindOpenQuery,
		"rewind_freeze": rewindFreezeQuery, "rewind_thaw": rewindThawQuery, "rewind_barrier": rewindBarrierQuery,
		"rewind_stop_draws": rewindStopQuery, "rewind_source": rewindSourceQuery, "rewind_lock_sessions": rewindSessionsQuery,
		"rewind_ending": rewindEndingQuery, "rewind_void_forged": rewindForgedQuery, "rewind_fast_forwards": rewindFastForwardsQuery,
		"rewind_last_record": rewindLastRecordQuery, "rewind_log": rewindLogQuery, "rewind_connected": rewindConnectedQuery,
		"rewind_holding": rewindHoldingQuery, "rewind_standing": rewindStandingQuery, "rewind_deployment": rewindDeploymentQuery,
		"rewind_keep_mark": rewindKeepMarkQuery, "rewind_place": rewindPlaceQuery, "rewind_log_of": rewindLogOfQuery,
	}
	for _, source := range evidenceSources {
		queries[source.file] = source.sql
	}
	return queries
}

// QueryFiles are the statements as they are written.
func QueryFiles() fs.FS { return queryFiles }
