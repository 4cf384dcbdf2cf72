-- Work in flight, per state and currency: what stands beside a break and may explain it.
-- The conditions are those of the partial indexes; a state that there is not is C12's.
SELECT p.state, p.currency::text, count(*), sum(p.amount_minor)::text, min(p.created_at) FILTER (WHERE isfinite(p.created_at))
  FROM (SELECT account_id, state, currency, amount_minor, created_at FROM payout WHERE state = 'PENDING'
         UNION ALL
        SELECT account_id, state, currency, amount_minor, created_at FROM payout
         WHERE state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')) p
 WHERE (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency))
 GROUP BY 1, 2
 ORDER BY array_position(ARRAY['PENDING', 'CLAIMED', 'RAIL_SUBMITTED', 'RAIL_AMBIGUOUS', 'RAIL_ACKED'], p.state), 2
