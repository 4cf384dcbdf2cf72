-- The payout is gone with its claim and its attempt, and its legs are not.
-- @paydb
DELETE FROM rail_submission USING scene WHERE payout_id = p3;
DELETE FROM payout_claim USING scene WHERE payout_id = p3;
DELETE FROM payout USING scene WHERE payout_id = p3;
-- @finding
t3, NULL, p3, NULL
