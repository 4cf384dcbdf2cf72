-- The library's acquire does not lock the row, and so overwrites an extend that has
-- not committed yet.
SELECT lock_id, fence, acquired_at_ms, expires_at_ms
  FROM syncguard_locks
 WHERE key = :key
   FOR UPDATE;
