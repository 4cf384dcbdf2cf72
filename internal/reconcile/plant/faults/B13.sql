-- The lock is still held by the token that was revoked an hour ago.
-- @lockdb
SELECT pg_temp.held(f1, account, other_by, '2 hours') FROM scene;
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
SELECT 'account:' || account, other_by, f1, 'oncall@example', 'the worker hangs', now() - interval '1 hour' FROM scene;
-- @finding
f1, NULL, NULL, NULL
