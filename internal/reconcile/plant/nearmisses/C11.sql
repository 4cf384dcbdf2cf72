-- Claimed half an hour ago.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', f1, by3, '30 minutes') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '31 minutes') FROM scene;
