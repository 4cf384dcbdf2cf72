-- Newest first, or after a known id oldest first.
SELECT id, logged_at, action, operator, reason, coalesce(token, 0), details, login_role, coalesce(host(client_address), '')
  FROM operator_log
 WHERE (:action::text IS NULL OR action = :action::text)
   AND (:after::bigint IS NULL OR id > :after::bigint)
 ORDER BY CASE WHEN :after::bigint IS NULL THEN -id ELSE id END
 LIMIT :row_limit;
