-- Tables whose append-only trigger is missing or off: an owner can do that, and
-- then anything (K-3.3).
SELECT t.relname FROM pg_class t
 WHERE t.oid IN ('lock_revocation'::regclass, 'operator_log'::regclass, 'lock_grant'::regclass)
   AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = t.oid AND g.tgenabled = 'A'
                      AND g.tgname IN ('lock_revocation_append_only', 'operator_log_append_only', 'lock_grant_guard'))
 ORDER BY 1;
