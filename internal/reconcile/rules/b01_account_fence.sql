-- B01, B02, B03: the fence of an account against its legs and its recorded raises. Clearing
-- accounts have no fence (K-4.7). One pass over the legs, sorted by account and time.
WITH legs AS (
  -- B03: when two transactions committed is not recorded, only when they began. Up to
  -- the grace (60 seconds) the order of the beginnings proves nothing.
  SELECT a.account_id, a.fence AS account_fence, l.payout_id, l.fence, l.amount_minor, l.created_at,
         max(l.fence) OVER (PARTITION BY l.account_id ORDER BY l.created_at
                            RANGE BETWEEN UNBOUNDED PRECEDING AND interval '60 seconds' PRECEDING) AS posted_before
    FROM ledger_entry l
    JOIN account a USING (account_id)
   WHERE a.account_id NOT IN (SELECT c.account_id FROM clearing_account c)
     AND (@accounts::uuid[] IS NULL OR a.account_id = ANY (@accounts::uuid[]))
     -- The second look at first: by index, and so without what another payer's payout put there.
     AND (NOT @own::boolean OR l.payout_id = ANY (ARRAY(SELECT p.payout_id FROM payout p WHERE p.account_id = ANY (@accounts::uuid[]))))
     AND (@currency::text[] IS NULL OR a.currency = ANY (@currency::text[]))
), per_account AS (
  SELECT account_id, max(fence) AS top,
         bool_or(fence IS NULL OR fence <= 0) AS unfenced,
         array_agg(fence)  FILTER (WHERE fence > account_fence) AS above,
         sum(amount_minor) FILTER (WHERE fence > account_fence) AS above_amount,
         min(created_at)   FILTER (WHERE fence > account_fence) AS above_since,
         jsonb_agg(jsonb_build_object('payout', payout_id, 'token', fence, 'amount', amount_minor, 'at', created_at, 'higher_token', posted_before))
                           FILTER (WHERE fence > 0 AND fence < posted_before) AS late
    FROM legs
   GROUP BY account_id
), suspects AS (
  SELECT a.account_id, a.currency, a.fence, a.updated_at, r.raised, l.*
    FROM account a
    LEFT JOIN (SELECT account_id, max(raised_to) AS raised FROM account_fence_raise GROUP BY account_id) r USING (account_id)
    LEFT JOIN per_account l (leg_account, top, unfenced, above, above_amount, above_since, late) ON l.leg_account = a.account_id
   WHERE (@accounts::uuid[] IS NULL OR a.account_id = ANY (@accounts::uuid[]))
     AND (@currency::text[] IS NULL OR a.currency = ANY (@currency::text[]))
     AND (l.above IS NOT NULL OR l.late IS NOT NULL OR a.fence > coalesce(l.top, 0) OR r.raised > a.fence)
)
SELECT f.class, s.account_id::text, f.payout_id, '' AS subject, s.currency::text, f.amount, CASE WHEN isfinite(f.at) THEN f.at END AS at, f.suspects, false AS pending, f.what, f.details
  FROM suspects s
 CROSS JOIN LATERAL (
   SELECT 'B01' AS class, '' AS payout_id, coalesce(s.above_amount::text, '') AS amount, s.above_since AS at,
          ARRAY(SELECT t FROM unnest(coalesce(s.above, ARRAY[s.raised])) t GROUP BY t ORDER BY t DESC LIMIT 20) AS suspects,
          format('account %s stands at fence %s, yet %s: written past the fence, or the fence was set back', s.account_id, s.fence,
                 CASE WHEN s.above IS NULL THEN format('an operator raised it to %s, which is recorded', s.raised)
                      WHEN cardinality(s.above) = 1 THEN format('a leg carries the higher token %s', s.top)
                      ELSE format('%s legs carry higher tokens, up to %s', cardinality(s.above), s.top) END) AS what,
          jsonb_build_object('fence', s.fence, 'highest_leg_fence', s.top, 'legs_above', coalesce(cardinality(s.above), 0), 'raised_to', s.raised) AS details
    WHERE s.above IS NOT NULL OR s.raised > s.fence
   UNION ALL
   -- A leg without a token (B15) may be the one that the fence is from.
   SELECT 'B02', '', '', s.updated_at, ARRAY[s.fence],
          format('account %s stands at fence %s, but %s, and no recorded raise explains it: token %s changed the account and left no leg',
                 s.account_id, s.fence, CASE WHEN s.top IS NULL THEN 'it has no leg at all' ELSE format('its last leg carries token %s', s.top) END, s.fence),
          jsonb_build_object('fence', s.fence, 'highest_leg_fence', coalesce(s.top, 0))
    WHERE s.fence > coalesce(s.top, 0) AND NOT coalesce(s.unfenced, false)
      AND NOT EXISTS (SELECT FROM account_fence_raise r WHERE r.account_id = s.account_id AND r.raised_to = s.fence)
   UNION ALL
   SELECT 'B03', j.payout, j.amount::text, j.at, ARRAY[j.token, j.higher_token],
          format('token %s posted payout %s at %s, more than a minute after the higher token %s had posted on the same account: a holder that had been replaced was let in',
                 j.token, j.payout, to_char(j.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), j.higher_token),
          jsonb_build_object('token', j.token, 'at', j.at, 'higher_token', j.higher_token)
     FROM jsonb_to_recordset(s.late) AS j (payout text, token bigint, amount bigint, at timestamptz, higher_token bigint)
 ) f;
