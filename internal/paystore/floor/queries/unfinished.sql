-- Whose payouts are between their claim and their end: a token from before the
-- restore may still come for them.
SELECT p.account_id::text, count(*), coalesce(max(p.claim_token), 0), string_agg(DISTINCT p.state, ', ' ORDER BY p.state), min(p.updated_at),
       count(*) OVER ()
  FROM payout p
 WHERE p.state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')
 GROUP BY p.account_id
 ORDER BY max(p.claim_token) DESC, p.account_id
 LIMIT :row_limit;
