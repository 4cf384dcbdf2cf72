-- B04, B15: the token of each leg and of each attempt that may reach the rail. A leg
-- carries the payout's claim (K-4.10): the poster takes the claim over first (K-5.1).
WITH legs AS (
  SELECT p.payout_id, p.account_id, p.currency, p.amount_minor, p.claim_token, p.claimed_by, p.state,
         l.fence, l.direction, l.created_at
    FROM ledger_entry l
    JOIN payout p USING (payout_id)
   WHERE l.fence IS DISTINCT FROM p.claim_token
     AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
     AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
     AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
), other_claim AS (
  SELECT payout_id, account_id, currency, amount_minor, claim_token, claimed_by, state,
         max(fence) AS fence, count(*) AS legs, min(created_at) AS at
    FROM legs
   WHERE claim_token IS NOT NULL OR state = 'POSTED'
   GROUP BY payout_id, account_id, currency, amount_minor, claim_token, claimed_by, state
  -- Different tokens on the legs are A15, and none at all is B15.
  HAVING min(fence) = max(fence) AND min(fence) > 0 AND count(*) = count(fence)
), without AS (
  SELECT payout_id, account_id, currency, amount_minor, claim_token, 'leg' AS row, direction AS which, fence AS token, created_at AS at
    FROM legs
   WHERE fence IS NULL OR fence <= 0
   UNION ALL
  SELECT p.payout_id, p.account_id, p.currency, p.amount_minor, p.claim_token, 'attempt', s.submission_id::text, s.presented_token, s.submitted_at
    FROM rail_submission s
    JOIN payout p USING (payout_id)
   WHERE (s.presented_token IS NULL OR s.presented_token <= 0) AND s.outcome IS DISTINCT FROM 'FENCED'
     AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
     AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
     AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
)
SELECT 'B04' AS class, o.account_id::text, o.payout_id::text, '' AS subject, o.currency::text, o.amount_minor::text AS amount, CASE WHEN isfinite(o.at) THEN o.at END AS at,
       array_remove(ARRAY[o.fence, o.claim_token], NULL) AS suspects, false AS pending,
       format('payout %s is claimed under token %s, by %s, but was posted under token %s', o.payout_id,
              coalesce(o.claim_token::text, 'none'), coalesce(quote_literal(o.claimed_by), 'nobody'), o.fence) AS what,
       jsonb_build_object('leg_fence', o.fence, 'claim_token', o.claim_token, 'claimed_by', o.claimed_by, 'state', o.state) AS details
  FROM other_claim o
 WHERE NOT EXISTS (SELECT FROM ledger_entry l WHERE l.payout_id = o.payout_id AND l.fence = o.claim_token)
 UNION ALL
SELECT 'B15', w.account_id::text, w.payout_id::text, '', w.currency::text, max(w.amount_minor)::text, min(w.at) FILTER (WHERE isfinite(w.at)),
       array_remove(ARRAY[w.claim_token], NULL), false,
       format('payout %s: %s without a token (%s stands there): whatever wrote it went round the fence', w.payout_id,
              CASE WHEN count(*) = 1 THEN format('its %s (%s) is', min(w.row), min(w.which)) ELSE format('%s of its legs and attempts are', count(*)) END,
              string_agg(DISTINCT coalesce(w.token::text, 'NULL'), ', ')),
       jsonb_build_object('rows', jsonb_agg(jsonb_build_object('row', w.row, 'which', w.which, 'token', w.token, 'at', w.at)), 'claim_token', w.claim_token)
  FROM without w
 GROUP BY w.account_id, w.payout_id, w.currency, w.claim_token;
