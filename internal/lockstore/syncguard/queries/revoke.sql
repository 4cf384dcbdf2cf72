-- K-3.1: what stands is read under its row lock; delete, audit row and outcome all
-- derive from that.
WITH held AS MATERIALIZED (
  SELECT key, lock_id, fence FROM syncguard_locks WHERE key = :key FOR UPDATE
), gone AS (
  DELETE FROM syncguard_locks l USING held h
   WHERE l.key = h.key AND l.lock_id = h.lock_id AND h.fence = :fence
  RETURNING l.key
), audit AS (
  INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason)
  SELECT 'revoke', key, :token::bigint, :operator, :reason FROM gone
  RETURNING id
)
SELECT CASE WHEN g.key IS NOT NULL THEN 'REVOKED' WHEN h.key IS NULL THEN 'NOT_HELD' ELSE 'TOKEN_MOVED' END,
       coalesce((SELECT id FROM audit), 0), coalesce(h.fence, '')
  FROM (VALUES (1)) one LEFT JOIN held h ON true LEFT JOIN gone g ON true;
