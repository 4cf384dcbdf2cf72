-- Since the sealed run an account was opened, and another one paid.
-- @paydb
SELECT pg_temp.account(x1, currency, 5000, NULL), pg_temp.posted(x2, account, clearing, 120, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
