-- Newest first, or after a known id oldest first.
SELECT id, lock_key, prev_owner, prev_token, operator, reason, revoked_at,
       coalesce(login_role, ''), coalesce(host(client_address), '')
  FROM lock_revocation
 WHERE (:id::bigint IS NULL OR id = :id::bigint)
   AND (:key::text IS NULL OR lock_key = :key::text)
   AND (:operator::text IS NULL OR operator = :operator::text)
   AND (:after::bigint IS NULL OR id > :after::bigint)
 ORDER BY CASE WHEN :after::bigint IS NULL THEN -id ELSE id END
 LIMIT :row_limit;
