-- K-3.1: the row is locked and was compared; it goes with its audit row, or neither.
WITH gone AS (
  DELETE FROM syncguard_locks
   WHERE key = :key
     AND coalesce(lock_id, '') = :lock_id
  RETURNING key
)
INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason, details)
SELECT 'revoke', key, :token::bigint, :operator, :reason, :details::jsonb FROM gone
RETURNING id;
