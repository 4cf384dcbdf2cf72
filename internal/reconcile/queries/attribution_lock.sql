-- All that lockdb says of some tokens, the surest source first. A fence is nobody's
-- grant (K-1.6).
SELECT token, source, key, owner, CASE WHEN isfinite(at) THEN at END, ended, CASE WHEN isfinite(ended_at) THEN ended_at END, operator, reason
  FROM (
    SELECT 1 AS rank, fencing_token AS token, 'lock_grant' AS source, lock_key AS key, owner_id AS owner, granted_at AS at,
           coalesce(ended, '') AS ended, ended_at, '' AS operator, '' AS reason
      FROM lock_grant WHERE fencing_token = ANY (@tokens::bigint[])
     UNION ALL
    SELECT 2, fencing_token, 'lock_entry', lock_key, owner_id, acquired_at, '', NULL, '', ''
      FROM lock_entry WHERE fencing_token = ANY (@tokens::bigint[])
     UNION ALL
    SELECT 3, prev_token, 'lock_revocation', lock_key, prev_owner, revoked_at, '', NULL, operator, reason
      FROM lock_revocation WHERE prev_token = ANY (@tokens::bigint[])
     UNION ALL
    SELECT 4, token, 'operator_log', coalesce(details ->> 'key', ''), '', logged_at, '', NULL, operator, reason
      FROM operator_log WHERE token = ANY (@tokens::bigint[]) AND action = 'fence_account'
  ) facts
 ORDER BY token, rank, at;
