-- A currency that nobody used before, on the account, the payout and its clearing.
-- @paydb
SELECT pg_temp.account(x1, 'JPY', 0, 0), pg_temp.account(x2, 'JPY', 5000, NULL) FROM scene;
SELECT pg_temp.posted(x3, x2, x1, 100, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, x2, by3, now() - interval '3 hours 4 s') FROM scene;
