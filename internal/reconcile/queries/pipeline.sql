-- Work in flight, per state and currency: what stands beside a break and may explain it.
SELECT p.state, p.currency::text, count(*), sum(p.amount_minor)::text, min(p.created_at)
  FROM payout p
 WHERE p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED')
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency))
 GROUP BY 1, 2
 ORDER BY array_position(ARRAY['PENDING', 'CLAIMED', 'RAIL_SUBMITTED', 'RAIL_AMBIGUOUS', 'RAIL_ACKED'], p.state), 2
