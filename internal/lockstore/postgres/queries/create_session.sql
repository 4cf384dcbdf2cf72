INSERT INTO lock_session (session_id, owner_id, expires_at)
VALUES (:session_id, :owner_id, now() + make_interval(secs => :session_ttl_seconds))
RETURNING created_at, expires_at;
