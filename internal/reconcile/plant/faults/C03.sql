-- The rail refused, and it was posted.
-- @paydb
UPDATE rail_submission SET outcome = 'REJECTED', rail_reference = NULL FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
