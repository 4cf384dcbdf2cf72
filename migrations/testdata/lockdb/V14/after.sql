SELECT 'level', t.name FROM (VALUES ('lock_grant_begin', 0, 'A'), ('lock_grant_end', 0, 'A'), ('lock_grant_move', 1, 'A'), ('lock_grant_begin_applied', 1, 'R'), ('lock_grant_end_applied', 1, 'R')) t (name, rows, enabled)
 WHERE NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = 'lock_entry'::regclass AND g.tgname = t.name AND g.tgtype & 1 = t.rows AND g.tgenabled = t.enabled::"char");
SELECT 'settings', proname FROM pg_proc WHERE proname LIKE 'lock\_grants\_%' AND (NOT prosecdef OR proowner <> 'dlock_owner'::regrole OR proconfig::text NOT LIKE '%search_path=pg_catalog%');
SELECT 'public may forge', p.proname FROM pg_proc p LEFT JOIN LATERAL aclexplode(p.proacl) a ON a.grantee = 0 WHERE p.proname LIKE 'lock\_grants\_%' AND (p.proacl IS NULL OR a.grantee = 0);
