-- B14, B16: live locks of accounts, read in lockdb, against what paydb has seen. The
-- token of a lock is above all that its account was ever given, and its holder takes
-- the account's open payouts over (K-5.2) within the grace.
WITH locks AS (
  SELECT * FROM unnest(@lock_accounts::uuid[], @lock_tokens::bigint[], @lock_owners::text[], @lock_since::timestamptz[], @lock_young::boolean[])
             AS l (account_id, token, owner, since, young)
), stands AS (
  SELECT l.*, a.currency, a.fence, h.highest_token AS mark
    FROM locks l
    JOIN account a USING (account_id)
    LEFT JOIN rail_high_water h USING (account_id)
   WHERE (@currency::text[] IS NULL OR a.currency = ANY (@currency::text[]))
)
SELECT 'B14' AS class, s.account_id::text, '' AS payout_id, '' AS subject, s.currency::text, '' AS amount, s.since AS at,
       ARRAY[s.token, greatest(s.fence, s.mark)] AS suspects, false AS pending,
       format('%s holds the lock of account %s under token %s, but %s: whatever it sends is refused until it acquires again', quote_literal(s.owner), s.account_id, s.token,
              concat_ws(' and ', CASE WHEN s.token < s.fence THEN format('the account''s fence stands at %s', s.fence) END,
                                 CASE WHEN s.token < s.mark THEN format('the rail''s mark stands at %s', s.mark) END)) AS what,
       jsonb_build_object('lock_token', s.token, 'owner', s.owner, 'fence', s.fence, 'mark', s.mark, 'acquired_at', s.since) AS details
  FROM stands s
 WHERE s.token < greatest(s.fence, s.mark)
 UNION ALL
SELECT 'B16', s.account_id::text, p.payout_id::text, '', p.currency::text, p.amount_minor::text, s.since, ARRAY[p.claim_token, s.token], s.young,
       format('payout %s is %s, claimed by %s under token %s, but %s holds its account''s lock under token %s since %s and has not taken it over',
              p.payout_id, p.state, quote_nullable(p.claimed_by), p.claim_token, quote_literal(s.owner), s.token, to_char(s.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')),
       jsonb_build_object('state', p.state, 'claim_token', p.claim_token, 'claimed_by', p.claimed_by, 'lock_token', s.token, 'owner', s.owner, 'acquired_at', s.since)
  FROM stands s
  JOIN payout p USING (account_id)
 WHERE p.state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS') AND p.claim_token < s.token;
