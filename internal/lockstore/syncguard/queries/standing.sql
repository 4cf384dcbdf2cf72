-- The library's acquire does not lock the row, and so overwrites an extend that has
-- not committed yet.
SELECT coalesce(lock_id, ''), coalesce(fence, 'NULL'), coalesce(acquired_at_ms, 0), coalesce(expires_at_ms, 0)
  FROM syncguard_locks
 WHERE key = :key
   FOR UPDATE;
