-- What this very instance and timeline recorded as reached: where it wrote that
-- itself, it is no evidence of a grant (K-7.2).
SELECT DISTINCT token FROM operator_log
 WHERE action = 'fast_forward' AND token IS NOT NULL
   AND system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
   AND timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
 ORDER BY token;
