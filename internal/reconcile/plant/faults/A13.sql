-- The rail refused, the payout is FAILED, and the payer was debited all the same.
-- @paydb
UPDATE payout SET state = 'FAILED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'REJECTED', rail_reference = NULL FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
