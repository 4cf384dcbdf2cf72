-- A replayed row may have no session, and is held all the same (K-1.1).
-- A row written by hand may never expire, and PostgreSQL subtracts no infinity
-- (K-2.5): NULL is for ever.
SELECT e.lock_key, e.fencing_token, e.owner_id, e.session_id, e.acquired_at, e.expires_at, s.expires_at,
       CASE WHEN isfinite(e.acquired_at) THEN extract(epoch FROM now() - e.acquired_at)::float8 END,
       CASE WHEN isfinite(e.expires_at)  THEN extract(epoch FROM e.expires_at - now())::float8 END,
       e.expires_at <= now()
  FROM lock_entry e LEFT JOIN lock_session s USING (session_id)
 WHERE (:key::text IS NULL OR e.lock_key = :key::text)
   AND (:owner_id::text IS NULL OR e.owner_id = :owner_id::text)
   AND (:session_id::uuid IS NULL OR e.session_id = :session_id::uuid)
   AND (:prefix::text IS NULL OR starts_with(e.lock_key, :prefix::text))
   AND (NOT :expired::boolean OR e.expires_at <= now())
 ORDER BY e.lock_key COLLATE "C"
 LIMIT :row_limit;
