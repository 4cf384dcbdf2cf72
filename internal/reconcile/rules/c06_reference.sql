-- C06: one reference of the rail on two payouts. One pass over the attempts; only
-- references that come twice are looked at closer.
WITH twice AS MATERIALIZED (
  SELECT rail_reference
    FROM rail_submission
   WHERE @references::text[] IS NULL AND rail_reference ~ '\S' AND outcome IS DISTINCT FROM 'FENCED'
   GROUP BY rail_reference
  HAVING count(*) > 1
   UNION ALL
  -- The second look.
  SELECT DISTINCT r.rail_reference FROM unnest(@references::text[]) AS r (rail_reference)
), on_payouts AS (
  SELECT s.rail_reference, s.payout_id, p.account_id, p.currency, p.amount_minor, s.presented_token, s.submitted_at
    FROM twice
    JOIN rail_submission s USING (rail_reference)
    JOIN payout p USING (payout_id)
   WHERE s.outcome IS DISTINCT FROM 'FENCED'
)
SELECT 'C06' AS class, '' AS account_id, '' AS payout_id, rail_reference AS subject,
       CASE WHEN count(DISTINCT currency) = 1 THEN min(currency)::text ELSE '' END AS currency,
       -- All but one of them would have to be somebody else's.
       CASE WHEN count(DISTINCT currency) = 1 THEN (sum(amount_minor) - max(amount_minor))::text ELSE '' END AS amount,
       max(submitted_at) FILTER (WHERE isfinite(submitted_at)) AS at, array_agg(presented_token ORDER BY submitted_at DESC) AS suspects, false AS pending,
       format('the rail''s reference %s stands on %s payouts (%s): one payment is counted more than once, or an answer was recorded on the wrong one',
              quote_literal(rail_reference), count(DISTINCT payout_id), string_agg(DISTINCT payout_id::text, ', ')) AS what,
       jsonb_build_object('payouts', jsonb_agg(jsonb_build_object('payout', payout_id, 'account', account_id, 'currency', currency, 'amount_minor', amount_minor::text,
                                                                  'token', presented_token, 'at', submitted_at) ORDER BY submitted_at)) AS details
  FROM on_payouts
 GROUP BY rail_reference
HAVING count(DISTINCT payout_id) > 1
   AND (@accounts::uuid[] IS NULL OR bool_or(account_id = ANY (@accounts::uuid[])))
   AND (@currency::text[] IS NULL OR bool_or(currency = ANY (@currency::text[])));
