-- Any F, for it was drawn, and what another instance or timeline reached. What
-- this one reached itself is its target, not a grant.
SELECT coalesce(o.token, 0), coalesce('record ' || o.id || ', ' || o.action, ''), o.logged_at,
       coalesce((SELECT max(token) FROM operator_log WHERE token > :limit_token), 0), ''
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM operator_log
     WHERE token <= :limit_token
       AND NOT (action IN ('fast_forward', 'fast_forward_done')
                AND system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
                AND timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int)
     ORDER BY token DESC LIMIT 1) o ON true;
