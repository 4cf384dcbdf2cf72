-- The credits of one clearing account add up to more than 64 bits, although its
-- balance fits: it opened far below zero. Nobody in particular did it.
-- @paydb
SELECT pg_temp.account(x1, 'XTS', -9000000000000000000, 0), pg_temp.account(x2, 'XTS', 9000000000000000000, NULL), pg_temp.account(x3, 'XTS', 9000000000000000000, NULL) FROM scene;
SELECT pg_temp.posted(md5('first' || x1)::uuid, x2, x1, 9000000000000000000, f1, by3) FROM scene;
UPDATE account SET balance_minor = 0 FROM scene WHERE account_id = x1;
SELECT pg_temp.posted(md5('second' || x1)::uuid, x3, x1, 9000000000000000000, f2, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, x2, by3, now() - interval '3 hours 6 s'), pg_temp.granted(f2, x3, by3, now() - interval '3 hours 4 s') FROM scene;
-- @finding
0, x1, NULL, NULL
