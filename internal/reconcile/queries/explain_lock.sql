-- What happened to some tokens in lockdb, and to the lock @key: the journal is
-- not searched by lock, so that of the tokens that wrote nothing only the standing one
-- is told. A revocation tells more than the end of the grant that it was.
WITH grants AS (
  SELECT * FROM lock_grant WHERE fencing_token = ANY (@tokens::bigint[])
), revocations AS (
  SELECT r.*, g.ended
    FROM lock_revocation r
    LEFT JOIN lock_grant g ON g.fencing_token = r.prev_token AND g.lock_key = r.lock_key
   WHERE r.prev_token = ANY (@tokens::bigint[])
), events AS (
  SELECT granted_at AS at, 0 AS rank, 'granted' AS kind, fencing_token AS token, owner_id AS holder,
         format('lock %s to %s', quote_literal(lock_key), quote_literal(owner_id)) AS what, 'lock_grant' AS source
    FROM grants
   UNION ALL
  SELECT ended_at, 8, ended, fencing_token, owner_id, format('the grant of lock %s ended', quote_literal(lock_key)), 'lock_grant'
    FROM grants g
   WHERE ended IS NOT NULL
     AND NOT (ended IN ('revoked', 'voided') AND EXISTS (SELECT FROM revocations r WHERE r.prev_token = g.fencing_token AND r.lock_key = g.lock_key))
   UNION ALL
  SELECT revoked_at, 8, CASE ended WHEN 'voided' THEN 'voided' ELSE 'revoked' END, prev_token, prev_owner,
         format('lock %s was taken from %s by %s: %s', quote_literal(lock_key), quote_literal(prev_owner), quote_literal(operator), reason), 'lock_revocation'
    FROM revocations
   UNION ALL
  SELECT acquired_at, 0, 'granted', fencing_token, owner_id, format('lock %s to %s, and it stands', quote_literal(lock_key), quote_literal(owner_id)), 'lock_entry'
    FROM lock_entry e
   WHERE (lock_key = @key OR fencing_token = ANY (@tokens::bigint[]))
     AND NOT EXISTS (SELECT FROM grants g WHERE g.fencing_token = e.fencing_token)
   UNION ALL
  SELECT logged_at, 7, 'fence', token, '',
         format('drawn by %s as the fence against token %s of lock %s: %s; it is nobody''s grant', quote_literal(operator), details ->> 'prev_token', quote_literal(coalesce(details ->> 'key', '')), reason), 'operator_log'
    FROM operator_log
   WHERE action = 'fence_account' AND (token = ANY (@tokens::bigint[]) OR details ->> 'prev_token' = ANY (@tokens::bigint[]::text[]))
)
SELECT CASE WHEN isfinite(at) THEN at END, kind, token, holder, '', '', what, source FROM events ORDER BY at, rank, token;
