-- The gate, and where this is: no row at all is a closed gate (K-7.4).
SELECT c.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int,
       g.one IS NOT NULL, coalesce(g.system_identifier, 0), coalesce(g.timeline_id, 0),
       coalesce(g.closed_by, ''), g.closed_at, coalesce(g.closed_reason, ''),
       coalesce(g.run_id::text, ''), coalesce(g.run_by, ''), g.run_at, coalesce(g.run_reason, '')
  FROM pg_control_system() c LEFT JOIN lock_gate g ON true;
