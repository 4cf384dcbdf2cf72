-- Two payouts of one payer meet at one clearing account.
-- @paydb
SELECT pg_temp.posted(x1, account, clearing, 100, f1, by3), pg_temp.posted(x2, account, clearing, 120, f2, by3) FROM scene;
SELECT pg_temp.touched(x1, '4 hours') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '4 hours 4 s'), pg_temp.granted(f2, account, by3, now() - interval '3 hours 4 s') FROM scene;
