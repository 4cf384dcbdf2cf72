-- Nobody has claimed it for thirty hours.
-- @paydb
SELECT pg_temp.payout(x1, account, 'PENDING', NULL, NULL, '30 hours') FROM scene;
-- @finding
0, account, x1, NULL
