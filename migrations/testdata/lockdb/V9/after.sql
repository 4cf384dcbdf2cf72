-- lockapp has DML on sessions and entries, and reads the rest (K-12.1).
SELECT 'lockapp', t.name, p.privilege FROM (VALUES ('lock_session'), ('lock_entry')) t (name), (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) p (privilege)
 WHERE NOT has_table_privilege('lockapp', t.name, p.privilege);
SELECT 'lockapp may', c.relname, p.privilege FROM pg_class c, (VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) p (privilege)
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname NOT IN ('lock_session', 'lock_entry')
   AND has_table_privilege('lockapp', c.oid, p.privilege);
SELECT 'auditor may', c.relname, p.privilege FROM pg_class c, (VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) p (privilege)
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND has_table_privilege('dlock_auditor', c.oid, p.privilege);
SELECT 'auditor may not read', c.relname FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname NOT LIKE 'lock\_grant\_%' AND NOT has_table_privilege('dlock_auditor', c.oid, 'SELECT');
-- Never UPDATE on a sequence: setval would rewind it (K-1.3).
SELECT 'setval', r.role FROM (VALUES ('lockapp'), ('dlock_operator'), ('dlock_auditor')) r (role) WHERE has_sequence_privilege(r.role, 'fencing_token_seq', 'UPDATE');
SELECT 'public may make partitions' FROM pg_proc p, aclexplode(p.proacl) a WHERE p.proname = 'lock_grant_extend' AND a.grantee = 0;
