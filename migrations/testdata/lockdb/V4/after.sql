SELECT 'always', tgname FROM pg_trigger
 WHERE tgrelid IN ('lock_entry'::regclass, 'lock_session'::regclass) AND NOT tgisinternal AND tgenabled <> 'A';
SELECT 'search_path', proname FROM pg_proc
 WHERE proname IN ('lock_gate_check', 'lock_entry_gate', 'lock_entry_order', 'lock_entry_guard', 'lock_session_guard')
   AND (proconfig IS NULL OR proconfig[1] NOT LIKE 'search_path=pg_catalog, %, pg_temp');
-- Grants that stood are untouched, and a renewal keeps their token.
UPDATE lock_entry SET expires_at = now() + interval '2 hours' WHERE lock_key = 'live';
SELECT 'token', fencing_token FROM lock_entry WHERE (lock_key, fencing_token) NOT IN (('live', 1), ('lapsed', 2));
