package postgres

import (
	"embed"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements, each with its parameters in the order they are passed.
var (
	acquireQuery           = query("acquire", "key", "owner_id", "session_id", "ttl_seconds")
	renewQuery             = query("renew", "ttl_seconds", "key", "token")
	releaseQuery           = query("release", "key", "token")
	heartbeatQuery         = query("heartbeat", "session_ttl_seconds", "session_id")
	createSessionQuery     = query("create_session", "session_id", "owner_id", "session_ttl_seconds")
	lockSessionQuery       = query("lock_session", "session_id")
	lapsedSessionsQuery    = query("lapsed_sessions", "session_limit")
	lockEntriesQuery       = query("lock_entries_of_sessions", "session_ids")
	deleteSessionsQuery    = query("delete_sessions", "session_ids")
	extendJournalQuery     = query("extend_journal")
	listEntriesQuery       = query("list_entries", "key", "owner_id", "session_id", "prefix", "expired", "row_limit")
	listSessionsQuery      = query("list_sessions", "session_id", "owner_id", "expired", "row_limit")
	blockersQuery          = query("blockers", "key")
	revokeQuery            = query("revoke", "key", "token", "operator", "reason")
	listRevocationsQuery   = query("list_revocations", "id", "key", "operator", "after", "row_limit")
	lockLiveSessionsQuery  = query("lock_live_sessions", "session_ids")
	releaseManyQuery       = query("release_many", "keys", "tokens")
	selectEntriesQuery     = query("lock_entries", "owner_id", "session_id", "prefix", "expired")
	revokeManyQuery        = query("revoke_many", "keys", "tokens", "operator", "reason")
	pruneQuery             = query("prune", "older_than", "row_limit")
	entrySessionQuery      = query("entry_session", "key")
	lockKeyQuery           = query("lock_key", "key")
	logActionQuery         = query("log_operator_action", "action", "operator", "reason", "token", "details")
	listOperatorLogQuery   = query("list_operator_log", "action", "after", "row_limit")
	grantHistoryQuery      = query("grant_history", "token")
	verifyChainQuery       = query("verify_chain")
	verifyRevocationsQuery = query("verify_revocations", "row_limit")
	verifyGuardsQuery      = query("verify_guards")
	countAuditQuery        = query("count_audit")
	checkTriggersQuery     = query("check_triggers")
	checkSequenceQuery     = query("check_sequence")
	checkTablesQuery       = query("check_tables")
	checkGateQuery         = query("check_gate")
	journalPartitionsQuery = query("journal_partitions")
	journalStateQuery      = query("journal_state", "above", "from_token")
	journalActivityQuery   = query("journal_activity", "older_than", "from_token", "to_token")
	journalStandingQuery   = query("journal_standing", "from_token", "to_token")
)

func query(name string, params ...string) string { return pgtx.Statement(queryFiles, name, params...) }
