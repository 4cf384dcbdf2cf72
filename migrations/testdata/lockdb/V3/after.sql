-- The gate is open and knows this instance and timeline (K-7.4, K-7.6).
SELECT 'gate' FROM lock_gate g, pg_control_system() c
 WHERE g.closed_by IS NOT NULL OR g.system_identifier <> c.system_identifier OR g.timeline_id <> 1;
SELECT 'no gate' WHERE NOT EXISTS (SELECT FROM lock_gate);
SELECT lock_gate_check() IS NULL AND false WHERE false;
SELECT 'always', tgname FROM pg_trigger WHERE tgrelid = 'lock_entry'::regclass AND NOT tgisinternal AND tgenabled <> 'A';
-- Grants that stood are untouched.
SELECT 'entries' WHERE (SELECT count(*) FROM lock_entry) <> 2;
