-- Only over the row that was looked at, or over none.
INSERT INTO syncguard_locks AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
VALUES (:key, :lock_id, :expires_at_ms, :acquired_at_ms, :fence, :key)
ON CONFLICT (key) DO UPDATE
   SET lock_id        = EXCLUDED.lock_id,
       expires_at_ms  = EXCLUDED.expires_at_ms,
       acquired_at_ms = EXCLUDED.acquired_at_ms,
       fence          = EXCLUDED.fence,
       user_key       = EXCLUDED.user_key
 WHERE coalesce(l.lock_id, '') = :replaced_lock_id;
