-- The grants that a bulk revoke is about to break, in key order (K-2.4).
SELECT e.lock_key, e.owner_id, e.session_id, e.fencing_token
  FROM lock_entry e
 WHERE (:owner_id::text IS NULL OR e.owner_id = :owner_id::text)
   AND (:session_id::uuid IS NULL OR e.session_id = :session_id::uuid)
   AND (:prefix::text IS NULL OR starts_with(e.lock_key, :prefix::text))
   AND (NOT :expired::boolean OR e.expires_at <= now())
 ORDER BY e.lock_key COLLATE "C"
   FOR UPDATE;
