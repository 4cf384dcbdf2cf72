-- Revoked, says the audit, and the journal that the worker released it.
-- @lockdb
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
SELECT g.lock_key, g.owner_id, g.fencing_token, 'oncall@example', 'the worker hangs', g.ended_at + interval '1 minute'
  FROM lock_grant g JOIN scene s ON g.fencing_token = s.t2;
-- @finding
0, account, NULL, NULL
