-- Every session that came back with the restore (K-7.5), in every writer's order
-- (K-2.4).
SELECT session_id FROM lock_session ORDER BY session_id FOR UPDATE;
