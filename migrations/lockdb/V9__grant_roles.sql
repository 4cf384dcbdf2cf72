-- Least privilege on lockdb (K-12.1). The roles are made by
-- `dlockctl migrate roles`; a versioned file only grants (K-9.5).
-- Locks: none that a reader or writer notices.

GRANT SELECT, INSERT, UPDATE, DELETE ON lock_session, lock_entry TO lockapp, dlock_operator;

-- Append to the audit, without choosing number, time, login or address (K-3.3).
GRANT SELECT ON lock_revocation TO lockapp, dlock_operator;
GRANT INSERT (lock_key, prev_owner, prev_token, operator, reason) ON lock_revocation TO lockapp, dlock_operator;
GRANT USAGE ON SEQUENCE lock_revocation_id_seq TO lockapp, dlock_operator;

-- USAGE draws and SELECT reads; UPDATE would let setval rewind (K-1.3).
GRANT USAGE, SELECT ON SEQUENCE fencing_token_seq TO lockapp, dlock_operator;

GRANT SELECT ON lock_gate, lock_grant, operator_log, peer_instance TO lockapp, dlock_operator;
GRANT INSERT (action, operator, reason, token, details) ON operator_log TO dlock_operator;

GRANT SELECT ON lock_session, lock_entry, lock_revocation, lock_gate, lock_grant, operator_log, peer_instance TO dlock_auditor;
GRANT SELECT ON SEQUENCE fencing_token_seq TO dlock_auditor;

-- Whoever reads the journal may make its partitions ahead; nobody else.
REVOKE EXECUTE ON FUNCTION lock_grant_extend(INTEGER) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lock_grant_extend(INTEGER) TO lockapp, dlock_operator;

-- Stores read the history to know which schema they stand on. It is made by
-- the migration engine, not by a migration.
DO $$
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO lockapp, dlock_operator, dlock_auditor', current_schema());
  IF to_regclass('flyway_schema_history') IS NOT NULL THEN
    GRANT SELECT ON flyway_schema_history TO lockapp, dlock_operator, dlock_auditor;
  END IF;
END $$;
