-- The account locks that are live, each with when its holder got them.
SELECT substr(lock_key, 9) AS account_id, fencing_token, owner_id, greatest(least(acquired_at, '9999-12-31'), '0001-01-02') AS acquired_at, acquired_at > now() - interval '5 minutes' AS young
  FROM lock_entry
 WHERE expires_at > now()
   AND lock_key ~ '^account:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
   AND (@accounts::text[] IS NULL OR substr(lock_key, 9) = ANY (@accounts::text[]));
