-- Another reaper's sessions are skipped: many replicas reap at once (K-2.4).
SELECT session_id FROM lock_session
 WHERE expires_at <= now()
 ORDER BY session_id
 LIMIT :session_limit
   FOR UPDATE SKIP LOCKED;
