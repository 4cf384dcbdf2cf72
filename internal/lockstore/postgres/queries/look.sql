-- What stands at many keys, for those who wait for them: it reads, and burns no
-- token (K-2.8).
SELECT e.lock_key, e.fencing_token, e.owner_id, e.session_id, e.acquired_at, e.expires_at,
       CASE WHEN isfinite(e.expires_at) THEN extract(epoch FROM e.expires_at - now())::float8 END,
       e.expires_at <= now()
  FROM lock_entry e
 WHERE e.lock_key = ANY(:keys::text[]);
