package postgres

// The statements of the restore order (K-7), each with its parameters in the
// order they are passed.
var (
	rewindGateQuery         = query("rewind_gate")
	rewindCloseQuery        = query("rewind_close_for_run", "run_id", "operator", "reason")
	rewindOpenQuery         = query("rewind_open_after_run", "run_id")
	rewindFreezeQuery       = query("rewind_freeze", "operator", "reason")
	rewindThawQuery         = query("rewind_thaw")
	rewindBarrierQuery      = query("rewind_barrier")
	rewindStopQuery         = query("rewind_stop_draws")
	rewindSourceQuery       = query("rewind_source")
	rewindSessionsQuery     = query("rewind_lock_sessions")
	rewindEndingQuery       = query("rewind_ending")
	rewindForgedQuery       = query("rewind_void_forged", "keys")
	rewindFastForwardsQuery = query("rewind_fast_forwards")
	rewindLastRecordQuery   = query("rewind_last_record")
	rewindLogQuery          = query("rewind_log", "action", "operator", "reason", "token", "details")
	rewindConnectedQuery    = query("rewind_connected", "own_pids")
	rewindHoldingQuery      = query("rewind_holding")
	rewindStandingQuery     = query("rewind_standing")
	rewindDeploymentQuery   = query("rewind_deployment")
	rewindKeepMarkQuery     = query("rewind_keep_mark")
	rewindPlaceQuery        = query("rewind_place")
	rewindLogOfQuery        = query("rewind_log_of", "system_identifier")
)

// evidenceSource is one source of lockdb. Its query answers with the highest
// token up to the limit, where it stands, since when, the highest over the limit,
// and what was left out.
type evidenceSource struct{ name, file, sql string }

func evidence(name, file string) evidenceSource {
	return evidenceSource{name, file, query(file, "limit_token")}
}

// sequenceEvidence reads what moves while others read it.
const sequenceEvidence = "rewind_evidence_sequence"

// evidenceSources are those of lockdb (K-7.2), the sequence last: tokens only grow.
var evidenceSources = []evidenceSource{
	evidence("lock_entry.fencing_token", "rewind_evidence_entry"),
	evidence("lock_grant.fencing_token", "rewind_evidence_grant"),
	evidence("lock_revocation.prev_token", "rewind_evidence_revocation"),
	evidence("operator_log.token", "rewind_evidence_log"),
	evidence("fencing_token_seq", sequenceEvidence),
}
