-- B13, B18, B20: revocations against the locks that are held, the tokens that were issued
-- and the journal. lockdb alone. A revocation and the end of its grant are one transaction
-- (K-3.1), and how it ended is taken from there (K-11). Of a pruned grant nothing is known.
WITH revocations AS (
  SELECT r.*, e.lock_key AS held_key, e.owner_id AS held_by,
         coalesce(substring(r.lock_key FROM '^account:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$'), '') AS account_id,
         to_char(r.revoked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS revoked
    FROM lock_revocation r
    LEFT JOIN lock_entry e ON e.fencing_token = r.prev_token
   WHERE e.lock_key IS NOT NULL OR r.prev_token > @last_token::bigint
)
SELECT f.class, r.account_id, '' AS payout_id, r.prev_token::text AS subject, '' AS currency, '' AS amount, CASE WHEN isfinite(r.revoked_at) THEN r.revoked_at END AS at, ARRAY[r.prev_token] AS suspects,
       false AS pending, f.what,
       jsonb_build_object('lock', r.lock_key, 'owner', r.prev_owner, 'operator', r.operator, 'reason', r.reason, 'audit_id', r.id, 'held_lock', r.held_key, 'held_by', r.held_by) AS details
  FROM revocations r
 CROSS JOIN LATERAL (VALUES
   ('B13', r.held_key IS NOT NULL,
    format('token %s was revoked by %s at %s (%s), and %s still holds lock %s under it', r.prev_token, quote_literal(r.operator), r.revoked, quote_literal(r.reason),
           quote_literal(r.held_by), quote_literal(r.held_key))),
   ('B18', r.prev_token > @last_token::bigint,
    format('%s revoked token %s of lock %s at %s, but the last token issued is %s: lockdb was restored or rewound since', quote_literal(r.operator), r.prev_token,
           quote_literal(r.lock_key), r.revoked, @last_token::bigint))
 ) AS f (class, applies, what)
 WHERE f.applies AND (@accounts::uuid[] IS NULL OR r.account_id = ANY (@accounts::uuid[]::text[]))
 UNION ALL
SELECT 'B20', j.account_id, '', j.token::text, '', '', CASE WHEN isfinite(j.at) THEN j.at END, ARRAY[j.token], false, j.what,
       jsonb_build_object('lock', j.lock_key, 'owner', j.owner, 'journal', j.ended, 'ended_at', j.ended_at, 'audit_id', j.audit_id)
  FROM (
    SELECT g.fencing_token AS token, g.lock_key, g.owner_id AS owner, g.ended, g.ended_at, NULL::bigint AS audit_id, g.ended_at AS at,
           format('the journal says that token %s of lock %s was %s from %s at %s, and the audit knows nothing of it: the row was never written, or was removed',
                  g.fencing_token, quote_literal(g.lock_key), g.ended, quote_literal(g.owner_id), to_char(g.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')) AS what,
           coalesce(substring(g.lock_key FROM '^account:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$'), '') AS account_id
      FROM lock_grant g
     WHERE g.ended IN ('revoked', 'voided')
       AND NOT EXISTS (SELECT FROM lock_revocation r WHERE r.prev_token = g.fencing_token AND r.lock_key = g.lock_key)
     UNION ALL
    SELECT g.fencing_token, g.lock_key, g.owner_id, g.ended, g.ended_at, min(r.id), min(r.revoked_at),
           format('the audit says that token %s of lock %s was taken away by %s, and the journal that it %s', g.fencing_token, quote_literal(g.lock_key),
                  string_agg(DISTINCT quote_literal(r.operator), ' and '), CASE WHEN g.ended IS NULL THEN 'stands' ELSE format('was %s', translate(g.ended, '_', '-')) END),
           coalesce(substring(g.lock_key FROM '^account:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$'), '')
      FROM lock_revocation r
      JOIN lock_grant g ON g.fencing_token = r.prev_token AND g.lock_key = r.lock_key
     WHERE (g.ended IS NULL OR g.ended NOT IN ('revoked', 'voided'))
       -- One that is still held is B13.
       AND NOT EXISTS (SELECT FROM lock_entry e WHERE e.fencing_token = g.fencing_token)
     GROUP BY g.fencing_token, g.lock_key, g.owner_id, g.ended, g.ended_at
  ) j
 WHERE @accounts::uuid[] IS NULL OR j.account_id = ANY (@accounts::uuid[]::text[]);
