-- Time and rows in one statement, without a lock. What no row of the library's has,
-- a column that is NULL, counts as the library's JavaScript counts it, and keeps
-- nobody from the list.
SELECT l.key, coalesce(l.lock_id, ''), coalesce(l.fence, 'NULL'), coalesce(l.acquired_at_ms, 0), coalesce(l.expires_at_ms, 0), c.now_ms
  FROM syncguard_locks l, (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now_ms) c
 WHERE (:key::text IS NULL OR l.key = :key::text)
   AND (:prefix::text IS NULL OR starts_with(l.key, :prefix::text))
   AND (NOT :expired::boolean OR l.expires_at_ms IS NULL OR l.expires_at_ms <= c.now_ms - :tolerance_ms::bigint)
 ORDER BY l.key COLLATE "C"
 LIMIT :row_limit;
