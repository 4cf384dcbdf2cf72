-- The rail was given another key than the payout's, and would pay it again.
-- @paydb
UPDATE rail_submission SET idempotency_key = idempotency_key || '-retry' FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
