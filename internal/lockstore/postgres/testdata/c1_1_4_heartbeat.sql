UPDATE lock_session
   SET expires_at = now() + make_interval(secs => :session_ttl_seconds)
 WHERE session_id = :session_id AND expires_at > now()
RETURNING expires_at;
