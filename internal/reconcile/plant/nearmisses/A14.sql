-- A payout without legs is no orphan: given up before anybody claimed it.
-- @paydb
SELECT pg_temp.payout(x1, account, 'FAILED', NULL, NULL, '3 hours') FROM scene;
