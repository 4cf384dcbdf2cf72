-- The rows are locked: delete and audit derive from the same of them (K-3.4).
WITH gone AS (
  DELETE FROM syncguard_locks l USING unnest(:keys::text[], :lock_ids::text[], :tokens::bigint[]) r (key, lock_id, token)
   WHERE l.key = r.key AND l.lock_id = r.lock_id
  RETURNING l.key, r.token
)
INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason)
SELECT 'revoke', key, token, :operator, :reason FROM gone ORDER BY key COLLATE "C"
RETURNING id, key, fence;
