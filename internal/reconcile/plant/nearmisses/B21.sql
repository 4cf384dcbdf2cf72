-- The same worker posts two payouts of one payer, and acquired again in between.
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours') FROM scene;
-- @paydb
SELECT pg_temp.posted(x1, account, clearing, 100, f1, by3) FROM scene;
