-- The grants that a bulk revoke is about to break, in key order (K-2.4). Their rows
-- are enough to lock: whoever acquires meanwhile waits for the row, or finds none.
SELECT l.key, coalesce(l.lock_id, ''), coalesce(l.fence, 'NULL')
  FROM syncguard_locks l
 WHERE (:prefix::text IS NULL OR starts_with(l.key, :prefix::text))
   AND (NOT :expired::boolean OR l.expires_at_ms IS NULL OR l.expires_at_ms <= floor(extract(epoch FROM now()) * 1000)::bigint - :tolerance_ms::bigint)
 ORDER BY l.key COLLATE "C"
   FOR UPDATE;
