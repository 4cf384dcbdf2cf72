-- The journal is written by other hands than the audit: what ended as revoked or
-- voided must have its audit row, and a row must explain a grant that the journal
-- still holds. The lowest token that it holds bounds what it can say.
SELECT finding, token, key FROM (
  SELECT 'revocation_missing' AS finding, g.fencing_token AS token, g.lock_key AS key
    FROM lock_grant g
   WHERE g.ended IN ('revoked', 'voided')
     AND NOT EXISTS (SELECT FROM lock_revocation r WHERE r.prev_token = g.fencing_token AND r.lock_key = g.lock_key AND r.prev_owner = g.owner_id)
  UNION ALL
  SELECT 'revocation_unexplained', r.prev_token, r.lock_key
    FROM lock_revocation r
   WHERE r.prev_token >= (SELECT min(fencing_token) FROM lock_grant)
     -- Rows from before V5 know no login, and their grants no journal.
     AND r.login_role IS NOT NULL
     AND NOT EXISTS (SELECT FROM lock_grant g WHERE g.fencing_token = r.prev_token AND g.lock_key = r.lock_key AND g.owner_id = r.prev_owner AND g.ended IN ('revoked', 'voided'))
) findings
 ORDER BY token
 LIMIT :row_limit;
