-- The rail paid, and the payout is FAILED: money out, and no debit (K-5.5).
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'FAILED' FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
