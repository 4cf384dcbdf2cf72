-- What V7 and V9 said of it still holds.
SELECT 'settings', proname FROM pg_proc WHERE proname = 'lock_grant_extend' AND (cardinality(proconfig) <> 2 OR NOT prosecdef OR proowner <> 'dlock_owner'::regrole);
SELECT 'public may make partitions' FROM pg_proc p, aclexplode(p.proacl) a WHERE p.proname = 'lock_grant_extend' AND a.grantee = 0;
SELECT 'may not', r.role FROM (VALUES ('lockapp'), ('dlock_operator')) r (role) WHERE NOT has_function_privilege(r.role, 'lock_grant_extend(INTEGER)', 'EXECUTE');
SELECT 'made again' WHERE lock_grant_extend() <> 0;
