UPDATE lock_entry
   SET expires_at = now() + make_interval(secs => :ttl_seconds)
 WHERE lock_key      = :key
   AND fencing_token = :token
   AND expires_at    > now()
RETURNING fencing_token, expires_at;
