-- A revocation of a number that was never issued: the audit is from another life of
-- lockdb.
-- @lockdb
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
SELECT 'account:' || account, other_by, forged, 'oncall@example', 'the worker hangs', now() - interval '1 hour' FROM scene;
-- @finding
0, account, NULL, NULL
