-- The head-room of one commit for 64 keys: a set form, for scale. It is not the
-- specified statement, which the store sends once for each key.
\set k random(1, 1000000)
INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
SELECT 'b-' || :client_id || '-' || :k || '-' || g, :owner_id, :session_id, nextval('fencing_token_seq'),
       now(), now() + make_interval(secs => :ttl_seconds)
  FROM generate_series(1, 64) g
ON CONFLICT (lock_key) DO UPDATE
   SET owner_id      = EXCLUDED.owner_id,
       session_id    = EXCLUDED.session_id,
       fencing_token = nextval('fencing_token_seq'),
       acquired_at   = now(),
       expires_at    = now() + make_interval(secs => :ttl_seconds)
 WHERE lock_entry.expires_at <= now()
    OR (lock_entry.owner_id = EXCLUDED.owner_id AND lock_entry.session_id = EXCLUDED.session_id)
RETURNING fencing_token;
DELETE FROM lock_entry
 WHERE session_id = :session_id AND lock_key LIKE 'b-' || :client_id || '-' || :k || '-%' AND fencing_token > 0;
