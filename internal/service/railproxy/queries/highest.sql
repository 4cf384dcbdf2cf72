-- The highest token that rail-proxy may read in paydb (K-7.6), and where it stands. A
-- floor whose row is missing is not known, which is not the same as 0 (K-7.2): how many
-- there are is told beside it.
SELECT s.token, s.source, (SELECT count(*) FROM fence_floor)
  FROM (VALUES
         ((SELECT max(highest_token) FROM rail_high_water), 'rail_high_water.highest_token'),
         ((SELECT max(presented_token) FROM rail_submission), 'rail_submission.presented_token'),
         ((SELECT max(fence) FROM account), 'account.fence'),
         ((SELECT max(claim_token) FROM payout), 'payout.claim_token'),
         ((SELECT max(claim_token) FROM payout_claim), 'payout_claim.claim_token'),
         ((SELECT max(floor_token) FROM fence_floor), 'fence_floor.floor_token'),
         (0, '')) s (token, source)
 WHERE s.token IS NOT NULL
 ORDER BY s.token DESC, s.source
 LIMIT 1;
