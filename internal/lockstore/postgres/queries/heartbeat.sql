-- C1 1.4, to the letter. No row: the session has lapsed or was reaped.
UPDATE lock_session
   SET expires_at = now() + make_interval(secs => :session_ttl_seconds)
 WHERE session_id = :session_id AND expires_at > now()
RETURNING expires_at;
