-- POSTED, and the rail was never asked.
-- @paydb
DELETE FROM rail_submission USING scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
