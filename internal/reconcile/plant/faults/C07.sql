-- Acknowledged, without the reference that would prove it.
-- @paydb
UPDATE rail_submission SET rail_reference = NULL FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
