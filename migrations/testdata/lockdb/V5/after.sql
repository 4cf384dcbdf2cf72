-- Rows from before stand, and nobody is said to have been logged in for them.
SELECT 'rows', count(*) FROM lock_revocation HAVING count(*) <> 2;
SELECT 'login', id FROM lock_revocation WHERE login_role IS NOT NULL OR client_address IS NOT NULL;
SELECT 'always', tgname FROM pg_trigger WHERE tgrelid = 'lock_revocation'::regclass AND NOT tgisinternal AND tgenabled <> 'A';
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('old', 'dave', 102, 'erin', 'why');
SELECT 'who', login_role FROM lock_revocation WHERE prev_token = 102 AND login_role IS DISTINCT FROM session_user;
