-- K-3.1: what stands is read under its row lock; delete, audit row and outcome
-- all derive from that. Classified from the statement's snapshot instead, nearly
-- every TOKEN_MOVED named the very token that was presented.
WITH held AS MATERIALIZED (
  SELECT lock_key, owner_id, fencing_token FROM lock_entry WHERE lock_key = :key FOR UPDATE
), gone AS (
  DELETE FROM lock_entry e USING held h
   WHERE e.lock_key = h.lock_key AND e.fencing_token = :token AND h.fencing_token = :token
  RETURNING e.lock_key, e.owner_id, e.fencing_token
), audit AS (
  INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason)
  SELECT lock_key, owner_id, fencing_token, :operator, :reason FROM gone
  RETURNING id
)
SELECT CASE WHEN g.lock_key IS NOT NULL THEN 'REVOKED' WHEN h.lock_key IS NULL THEN 'NOT_HELD' ELSE 'TOKEN_MOVED' END,
       coalesce((SELECT id FROM audit), 0), coalesce(h.owner_id, ''), coalesce(h.fencing_token, 0)
  FROM (VALUES (1)) one LEFT JOIN held h ON true LEFT JOIN gone g ON true;
