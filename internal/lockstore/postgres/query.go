package postgres

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// query reads queries/<name>.sql and writes its :name parameters as the
// driver's $1, $2, … in the given order. A file and a list that disagree are a
// mistake of this package, found as soon as it is loaded.
func query(name string, params ...string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	sql, used := number(strings.TrimSuffix(strings.TrimSpace(strings.Join(lines, "")), ";"), params)
	if used != len(params) {
		panic(fmt.Sprintf("queries/%s.sql: uses %d of %d parameters, or one that is not in the list", name, used, len(params)))
	}
	return sql
}

// number replaces each :name by its number, and counts the different ones; -1
// when one is not among params. By hand: it runs at the start of every command.
func number(text string, params []string) (sql string, used int) {
	var out strings.Builder
	seen := make([]bool, len(params))
	for len(text) > 0 {
		before, rest, _ := strings.Cut(text, ":")
		out.WriteString(before)
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "_abcdefghijklmnopqrstuvwxyz"))]
		text = rest[len(name):]
		switch {
		case strings.HasPrefix(rest, ":"): // a cast
			out.WriteString("::")
			text = rest[1:]
		case name != "":
			at := slices.Index(params, name)
			if at < 0 {
				return "", -1
			}
			if !seen[at] {
				seen[at] = true
				used++
			}
			out.WriteString("$" + strconv.Itoa(at+1))
		}
	}
	return out.String(), used
}
