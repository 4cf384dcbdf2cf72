-- D03 of lockdb: its gate remembers the instance and the timeline that it was opened on
-- (K-7.6). A standby has no timeline of its own.
SELECT 'D03', '', '', 'lock_gate', '', '', CASE WHEN isfinite(g.closed_at) THEN g.closed_at END, '{}'::bigint[], false,
       CASE WHEN g.one IS NULL THEN 'lock_gate has no row, which is a closed gate'
            ELSE format('lock_gate was opened on instance %s, timeline %s; this is instance %s, timeline %s: lockdb was restored, promoted or copied',
                        g.system_identifier, g.timeline_id, here.system_identifier, coalesce(here.timeline::text, 'unknown')) END,
       jsonb_build_object('gate_system_identifier', g.system_identifier::text, 'gate_timeline', g.timeline_id,
                          'system_identifier', here.system_identifier::text, 'timeline', here.timeline)
  FROM (SELECT c.system_identifier,
               CASE WHEN NOT pg_is_in_recovery() THEN ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int END AS timeline
          FROM pg_control_system() c) here
  LEFT JOIN lock_gate g ON true
 WHERE g.one IS NULL OR g.system_identifier <> here.system_identifier OR g.timeline_id <> here.timeline
