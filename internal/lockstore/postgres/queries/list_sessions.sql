SELECT s.session_id, s.owner_id, s.created_at, s.expires_at,
       CASE WHEN isfinite(s.expires_at) THEN extract(epoch FROM s.expires_at - now())::float8 END,
       (SELECT count(*) FROM lock_entry e WHERE e.session_id = s.session_id)
  FROM lock_session s
 WHERE (:session_id::uuid IS NULL OR s.session_id = :session_id::uuid)
   AND (:owner_id::text IS NULL OR s.owner_id = :owner_id::text)
   AND (NOT :expired::boolean OR s.expires_at <= now())
 ORDER BY s.created_at, s.session_id
 LIMIT :row_limit;
