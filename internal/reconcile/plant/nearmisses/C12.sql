-- Never updated since it was created: given up in the same transaction.
-- @paydb
SELECT pg_temp.payout(x1, account, 'FAILED', NULL, NULL, '3 hours') FROM scene;
UPDATE payout SET updated_at = created_at FROM scene WHERE payout_id = x1;
