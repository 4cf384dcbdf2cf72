-- Newest first, or after a known id oldest first.
SELECT id, key, fence, coalesce(details ->> 'lock_id_hash', ''), coalesce(details ->> 'fence', ''), operator, reason, recorded_at, login_role,
       coalesce(host(client_address), '')
  FROM dlockctl_syncguard_audit
 WHERE action = 'revoke'
   AND (:id::bigint IS NULL OR id = :id::bigint)
   AND (:keys::text[] IS NULL OR key = ANY (:keys::text[]))
   AND (:operator::text IS NULL OR operator = :operator::text)
   AND (:after::bigint IS NULL OR id > :after::bigint)
 ORDER BY CASE WHEN :after::bigint IS NULL THEN -id ELSE id END
 LIMIT :row_limit;
