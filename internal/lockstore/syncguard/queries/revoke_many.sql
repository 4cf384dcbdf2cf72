-- The rows are locked: delete and audit derive from the same of them (K-3.4).
WITH gone AS (
  DELETE FROM syncguard_locks l
   USING unnest(:keys::text[], :lock_ids::text[], :tokens::bigint[], :details::text[]) r (key, lock_id, token, details)
   WHERE l.key = r.key AND coalesce(l.lock_id, '') = r.lock_id
  RETURNING l.key, r.token, r.details
)
INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason, details)
SELECT 'revoke', key, token, :operator, :reason, details::jsonb FROM gone ORDER BY key COLLATE "C"
RETURNING id, key, fence, coalesce(details ->> 'lock_id_hash', '');
