SELECT coalesce(e.claim_token, 0), coalesce('payout ' || e.payout_id, ''), e.claimed_at,
       coalesce((SELECT max(claim_token) FROM payout_claim WHERE claim_token > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM payout_claim WHERE claim_token <= :limit_token ORDER BY claim_token DESC LIMIT 1) e ON true;
