-- The row of this very grant, or none.
SELECT lock_id, fence, acquired_at_ms, expires_at_ms
  FROM syncguard_locks
 WHERE key = :key
   AND fence = :fence
   FOR UPDATE;
