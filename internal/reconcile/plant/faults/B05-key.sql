-- Granted on the payer's lock, and an hour later revoked on the neighbour's.
-- @lockdb
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
SELECT 'account:' || other, by3, t3, 'oncall@example', 'the worker hangs', at3 + interval '1 hour' FROM scene;
-- @finding
t3, NULL, NULL, NULL
