-- Time and rows in one statement, without a lock.
SELECT l.key, l.lock_id, l.fence, l.acquired_at_ms, l.expires_at_ms, c.now_ms
  FROM syncguard_locks l, (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now_ms) c
 WHERE (:key::text IS NULL OR l.key = :key::text)
   AND (:prefix::text IS NULL OR starts_with(l.key, :prefix::text))
   AND (NOT :expired::boolean OR l.expires_at_ms <= c.now_ms - :tolerance_ms::bigint)
 ORDER BY l.key COLLATE "C"
 LIMIT :row_limit;
