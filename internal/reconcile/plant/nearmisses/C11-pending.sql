-- Nobody has claimed it for twenty hours: four are left.
-- @paydb
SELECT pg_temp.payout(x1, account, 'PENDING', NULL, NULL, '20 hours') FROM scene;
