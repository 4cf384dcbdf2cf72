-- Rows whose lease ended long ago, and nothing else; one that somebody works on at
-- this moment is left for the next time. Counters stay for ever.
WITH stale AS MATERIALIZED (
  SELECT key, lock_id FROM syncguard_locks
   WHERE (expires_at_ms IS NULL OR expires_at_ms <= floor(extract(epoch FROM now()) * 1000)::bigint - :older_than_ms::bigint)
   ORDER BY key COLLATE "C"
   LIMIT :row_limit
     FOR UPDATE SKIP LOCKED
)
DELETE FROM syncguard_locks l USING stale s
 WHERE l.key = s.key AND l.lock_id IS NOT DISTINCT FROM s.lock_id
RETURNING l.key, coalesce(l.lock_id, ''), coalesce(l.fence, 'NULL'), coalesce(l.acquired_at_ms, 0), coalesce(l.expires_at_ms, 0),
          floor(extract(epoch FROM now()) * 1000)::bigint;
