SELECT action, coalesce(token, 0),
       system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
       AND timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
  FROM operator_log ORDER BY id DESC LIMIT 1;
