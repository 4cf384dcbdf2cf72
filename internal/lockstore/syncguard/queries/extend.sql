-- Never sooner than was promised before (K-2.10); the library's extend may shorten.
UPDATE syncguard_locks
   SET expires_at_ms = greatest(expires_at_ms, :expires_at_ms)
 WHERE key = :key
   AND lock_id = :lock_id
RETURNING expires_at_ms;
