-- Which transactions this snapshot sees, and the highest tokens that paydb holds.
SELECT pg_current_snapshot()::text,
       (SELECT coalesce(max(fence), 0) FROM account),
       (SELECT coalesce(max(highest_token), 0) FROM rail_high_water),
       (SELECT coalesce(max(claim_token), 0) FROM payout_claim);
