-- What shows a restored lockdb at once, for whoever is about to grant (K-7.6): fences
-- and floors, and of the claims the open ones, which have an index. Every role that
-- works on paydb may read these.
SELECT greatest(
  coalesce((SELECT max(fence) FROM account WHERE fence <= :limit_token), 0),
  coalesce((SELECT max(floor_token) FROM fence_floor WHERE floor_token <= :limit_token), 0),
  coalesce((SELECT max(claim_token) FROM payout
             WHERE state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS') AND claim_token <= :limit_token), 0));
