SELECT id, lock_key, prev_owner, prev_token, operator, reason, revoked_at,
       coalesce(login_role, ''), coalesce(host(client_address), '')
  FROM lock_revocation
 WHERE (:id::bigint IS NULL OR id = :id::bigint)
   AND (:key::text IS NULL OR lock_key = :key::text)
   AND (:operator::text IS NULL OR operator = :operator::text)
 ORDER BY id DESC
 LIMIT :row_limit;
