-- B13, B18: revocations against the locks that are held and the tokens that were issued.
-- lockdb alone. A revocation and the end of its grant are one transaction (K-3.1).
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
 WHERE f.applies AND (@accounts::uuid[] IS NULL OR r.account_id = ANY (@accounts::uuid[]::text[]));
