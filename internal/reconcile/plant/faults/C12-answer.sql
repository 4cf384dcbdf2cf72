-- The rail answered an hour before it was asked.
-- @paydb
UPDATE rail_submission SET resolved_at = submitted_at - interval '1 hour' FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
