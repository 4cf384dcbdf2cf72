-- The rows are locked: delete and audit derive from the same of them (K-3.4).
WITH gone AS (
  DELETE FROM lock_entry e USING unnest(:keys::text[], :tokens::bigint[]) r (lock_key, fencing_token)
   WHERE e.lock_key = r.lock_key AND e.fencing_token = r.fencing_token
  RETURNING e.lock_key, e.owner_id, e.fencing_token
)
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason)
SELECT lock_key, owner_id, fencing_token, :operator, :reason FROM gone ORDER BY lock_key COLLATE "C"
RETURNING id, lock_key, prev_owner, prev_token;
