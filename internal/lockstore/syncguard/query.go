package syncguard

import (
	"embed"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements, each with its parameters in the order they are passed.
var (
	lockKeyQuery         = query("lock_key", "key")
	standingQuery        = query("standing", "key")
	ownQuery             = query("own", "key", "fence")
	clockQuery           = query("clock")
	makeCounterQuery     = query("make_counter", "fence_key", "key")
	drawQuery            = query("draw", "fence_key", "last_fence")
	counterQuery         = query("counter", "fence_key")
	grantQuery           = query("grant", "key", "lock_id", "expires_at_ms", "acquired_at_ms", "fence", "replaced_lock_id")
	extendQuery          = query("extend", "key", "lock_id", "expires_at_ms")
	deleteQuery          = query("delete", "key", "lock_id")
	listEntriesQuery     = query("list_entries", "key", "prefix", "expired", "tolerance_ms", "row_limit")
	blockersQuery        = query("blockers", "key")
	revokeQuery          = query("revoke", "key", "lock_id", "token", "operator", "reason", "details")
	selectEntriesQuery   = query("lock_entries", "prefix", "expired", "tolerance_ms")
	revokeManyQuery      = query("revoke_many", "keys", "lock_ids", "tokens", "operator", "reason", "details")
	pruneQuery           = query("prune", "older_than_ms", "row_limit")
	listRevocationsQuery = query("list_revocations", "id", "keys", "operator", "after", "row_limit")
	listOperatorLogQuery = query("list_operator_log", "action", "after", "row_limit")
	verifyAuditQuery     = query("verify_audit", "audit_table")
	countAuditQuery      = query("count_audit")
	actsQuery            = query("acts", "lock", "fence")
	checkTableQuery      = query("check_table", "table", "folded", "columns", "key_column")
)

func query(name string, params ...string) string { return pgtx.Statement(queryFiles, name, params...) }

// statements are those of one deployment, under the names of its tables.
type statements struct {
	lockKey, clock                                                   string
	standing, own, makeCounter, draw, counter, grant, extend, delete string
	listEntries, blockers, revoke, selectEntries, revokeMany, prune  string
	listRevocations, listOperatorLog, countAudit                     string
}

func statementsFor(n Names) statements {
	return statements{
		lockKey: lockKeyQuery, clock: clockQuery,
		standing: n.In(standingQuery), own: n.In(ownQuery), makeCounter: n.In(makeCounterQuery), draw: n.In(drawQuery),
		counter: n.In(counterQuery), grant: n.In(grantQuery), extend: n.In(extendQuery), delete: n.In(deleteQuery),
		listEntries: n.In(listEntriesQuery), blockers: n.In(blockersQuery), revoke: n.In(revokeQuery),
		selectEntries: n.In(selectEntriesQuery), revokeMany: n.In(revokeManyQuery), prune: n.In(pruneQuery),
		listRevocations: n.In(listRevocationsQuery), listOperatorLog: n.In(listOperatorLogQuery), countAudit: n.In(countAuditQuery),
	}
}
