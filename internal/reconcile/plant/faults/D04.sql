-- Since the sealed run paydb was restored to before the open payouts: they are gone
-- with their claims, attempts and marks, and the highest of each is lower.
-- @paydb
CREATE TEMP TABLE lost ON COMMIT DROP AS SELECT payout_id, account_id FROM payout WHERE state NOT IN ('POSTED', 'FAILED', 'ABANDONED');
DELETE FROM payout_claim USING lost WHERE payout_claim.payout_id = lost.payout_id;
DELETE FROM rail_submission USING lost WHERE rail_submission.payout_id = lost.payout_id;
DELETE FROM payout USING lost WHERE payout.payout_id = lost.payout_id;
UPDATE rail_high_water h
   SET highest_token = greatest(
         (SELECT max(s.presented_token) FROM rail_submission s JOIN payout p USING (payout_id) WHERE p.account_id = h.account_id AND s.outcome IS DISTINCT FROM 'FENCED'),
         (SELECT max(r.raised_to) FROM account_fence_raise r WHERE r.account_id = h.account_id))
  FROM lost WHERE h.account_id = lost.account_id;
-- @finding
0, NULL, NULL, NULL
