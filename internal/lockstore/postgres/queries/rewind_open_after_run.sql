-- Opened here, on the instance and timeline that this is; a freeze stays.
UPDATE lock_gate
   SET system_identifier = (SELECT c.system_identifier FROM pg_control_system() c),
       timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int,
       run_id = NULL, run_by = NULL, run_at = NULL, run_reason = NULL
 WHERE run_id = :run_id;
