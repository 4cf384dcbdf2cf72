-- Newest first, or after a known id oldest first.
SELECT id, recorded_at, action, operator, reason, fence, details, login_role, coalesce(host(client_address), '')
  FROM dlockctl_syncguard_audit
 WHERE action <> 'revoke'
   AND (:action::text IS NULL OR action = :action::text)
   AND (:after::bigint IS NULL OR id > :after::bigint)
 ORDER BY CASE WHEN :after::bigint IS NULL THEN -id ELSE id END
 LIMIT :row_limit;
