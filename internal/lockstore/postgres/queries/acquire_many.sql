-- The set form of acquire.sql: a row for each lock, in the order of the keys' bytes
-- (K-2.4). Each is the specified statement's; the triggers judge it by itself.
INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
SELECT r.lock_key, r.owner_id, r.session_id, nextval('fencing_token_seq'),
       now(), now() + make_interval(secs => r.ttl_seconds)
  FROM unnest(:keys::text[], :owner_ids::text[], :session_ids::uuid[], :ttls::float8[]) r (lock_key, owner_id, session_id, ttl_seconds)
 ORDER BY r.lock_key COLLATE "C"
ON CONFLICT (lock_key) DO UPDATE
   SET owner_id      = EXCLUDED.owner_id,
       session_id    = EXCLUDED.session_id,
       fencing_token = nextval('fencing_token_seq'),
       acquired_at   = now(),
       expires_at    = EXCLUDED.expires_at
 WHERE lock_entry.expires_at <= now()
    OR (lock_entry.owner_id = EXCLUDED.owner_id AND lock_entry.session_id = EXCLUDED.session_id)
RETURNING lock_key, fencing_token, owner_id, acquired_at, expires_at;
