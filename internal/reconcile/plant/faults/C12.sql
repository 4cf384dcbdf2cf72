-- Last updated an hour before it was created.
-- @paydb
UPDATE payout SET updated_at = created_at - interval '1 hour' FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
